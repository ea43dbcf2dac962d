//! Integer operators, a lane at a time.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` is what wasm's wrapping and reinterpretation are"
)]

use crate::case::{Param, Table, Ty};
use crate::lanes::{Kind, lanes, pack};

pub(crate) fn table(t: &mut Table) {
    unary(t);
    wrapping(t);
    saturating(t);
    extremes(t);
    shifts(t);
    relations(t);
    widening(t);
    products(t);
}

fn unary(t: &mut Table) {
    t.map1("i8x16.abs", i8::wrapping_abs);
    t.map1("i16x8.abs", i16::wrapping_abs);
    t.map1("i32x4.abs", i32::wrapping_abs);
    t.map1("i64x2.abs", i64::wrapping_abs);
    t.map1("i8x16.neg", i8::wrapping_neg);
    t.map1("i16x8.neg", i16::wrapping_neg);
    t.map1("i32x4.neg", i32::wrapping_neg);
    t.map1("i64x2.neg", i64::wrapping_neg);
    t.map1("i8x16.popcnt", |x: u8| x.count_ones() as u8);
}

fn wrapping(t: &mut Table) {
    t.map2("i8x16.add", i8::wrapping_add);
    t.map2("i16x8.add", i16::wrapping_add);
    t.map2("i32x4.add", i32::wrapping_add);
    t.map2("i64x2.add", i64::wrapping_add);
    t.map2("i8x16.sub", i8::wrapping_sub);
    t.map2("i16x8.sub", i16::wrapping_sub);
    t.map2("i32x4.sub", i32::wrapping_sub);
    t.map2("i64x2.sub", i64::wrapping_sub);
    t.map2("i16x8.mul", i16::wrapping_mul);
    t.map2("i32x4.mul", i32::wrapping_mul);
    t.map2("i64x2.mul", i64::wrapping_mul);
}

fn saturating(t: &mut Table) {
    t.map2("i8x16.add_sat_s", i8::saturating_add);
    t.map2("i16x8.add_sat_s", i16::saturating_add);
    t.map2("i8x16.add_sat_u", u8::saturating_add);
    t.map2("i16x8.add_sat_u", u16::saturating_add);
    t.map2("i8x16.sub_sat_s", i8::saturating_sub);
    t.map2("i16x8.sub_sat_s", i16::saturating_sub);
    t.map2("i8x16.sub_sat_u", u8::saturating_sub);
    t.map2("i16x8.sub_sat_u", u16::saturating_sub);
    t.map2("i8x16.avgr_u", |x: u8, y: u8| (u16::from(x) + u16::from(y)).div_ceil(2) as u8);
    t.map2("i16x8.avgr_u", |x: u16, y: u16| (u32::from(x) + u32::from(y)).div_ceil(2) as u16);
    t.map2("i16x8.q15mulr_sat_s", |x: i16, y: i16| ((i32::from(x) * i32::from(y) + 0x4000) >> 15).min(0x7fff) as i16);
    narrow(t, "i8x16.narrow_i16x8_s", |x: i16| x.clamp(-0x80, 0x7f) as i8);
    narrow(t, "i8x16.narrow_i16x8_u", |x: i16| x.clamp(0, 0xff) as u8);
    narrow(t, "i16x8.narrow_i32x4_s", |x: i32| x.clamp(-0x8000, 0x7fff) as i16);
    narrow(t, "i16x8.narrow_i32x4_u", |x: i32| x.clamp(0, 0xffff) as u16);
}

fn narrow<T: crate::lanes::Lane, R: crate::lanes::Lane>(t: &mut Table, name: &str, f: impl Fn(T) -> R + 'static) {
    t.operator(name, &[Param::Vector(T::KIND); 2], Ty::V128, move |args| {
        pack(lanes(args[0]).into_iter().chain(lanes(args[1])).map(&f))
    });
}

fn extremes(t: &mut Table) {
    t.map2("i8x16.min_s", |x: i8, y| x.min(y));
    t.map2("i16x8.min_s", |x: i16, y| x.min(y));
    t.map2("i32x4.min_s", |x: i32, y| x.min(y));
    t.map2("i8x16.min_u", |x: u8, y| x.min(y));
    t.map2("i16x8.min_u", |x: u16, y| x.min(y));
    t.map2("i32x4.min_u", |x: u32, y| x.min(y));
    t.map2("i8x16.max_s", |x: i8, y| x.max(y));
    t.map2("i16x8.max_s", |x: i16, y| x.max(y));
    t.map2("i32x4.max_s", |x: i32, y| x.max(y));
    t.map2("i8x16.max_u", |x: u8, y| x.max(y));
    t.map2("i16x8.max_u", |x: u16, y| x.max(y));
    t.map2("i32x4.max_u", |x: u32, y| x.max(y));
}

fn shifts(t: &mut Table) {
    t.shift("i8x16.shl", |x: u8, n| x << (n % 8));
    t.shift("i16x8.shl", |x: u16, n| x << (n % 16));
    t.shift("i32x4.shl", |x: u32, n| x << (n % 32));
    t.shift("i64x2.shl", |x: u64, n| x << (n % 64));
    t.shift("i8x16.shr_s", |x: i8, n| x >> (n % 8));
    t.shift("i16x8.shr_s", |x: i16, n| x >> (n % 16));
    t.shift("i32x4.shr_s", |x: i32, n| x >> (n % 32));
    t.shift("i64x2.shr_s", |x: i64, n| x >> (n % 64));
    t.shift("i8x16.shr_u", |x: u8, n| x >> (n % 8));
    t.shift("i16x8.shr_u", |x: u16, n| x >> (n % 16));
    t.shift("i32x4.shr_u", |x: u32, n| x >> (n % 32));
    t.shift("i64x2.shr_u", |x: u64, n| x >> (n % 64));
}

macro_rules! relations {
    ($table:ident, $shape:literal, $signed:ty, $unsigned:ty) => {
        $table.relation(concat!($shape, ".lt_u"), |x: $unsigned, y| x < y);
        $table.relation(concat!($shape, ".gt_u"), |x: $unsigned, y| x > y);
        $table.relation(concat!($shape, ".le_u"), |x: $unsigned, y| x <= y);
        $table.relation(concat!($shape, ".ge_u"), |x: $unsigned, y| x >= y);
        relations!($table, $shape, $signed);
    };
    ($table:ident, $shape:literal, $signed:ty) => {
        $table.relation(concat!($shape, ".eq"), |x: $signed, y| x == y);
        $table.relation(concat!($shape, ".ne"), |x: $signed, y| x != y);
        $table.relation(concat!($shape, ".lt_s"), |x: $signed, y| x < y);
        $table.relation(concat!($shape, ".gt_s"), |x: $signed, y| x > y);
        $table.relation(concat!($shape, ".le_s"), |x: $signed, y| x <= y);
        $table.relation(concat!($shape, ".ge_s"), |x: $signed, y| x >= y);
    };
}

fn relations(t: &mut Table) {
    relations!(t, "i8x16", i8, u8);
    relations!(t, "i16x8", i16, u16);
    relations!(t, "i32x4", i32, u32);
    relations!(t, "i64x2", i64);
}

fn widening(t: &mut Table) {
    t.map1("i16x8.extend_low_i8x16_s", |x: i8| i16::from(x));
    t.map1_high("i16x8.extend_high_i8x16_s", |x: i8| i16::from(x));
    t.map1("i16x8.extend_low_i8x16_u", |x: u8| u16::from(x));
    t.map1_high("i16x8.extend_high_i8x16_u", |x: u8| u16::from(x));
    t.map1("i32x4.extend_low_i16x8_s", |x: i16| i32::from(x));
    t.map1_high("i32x4.extend_high_i16x8_s", |x: i16| i32::from(x));
    t.map1("i32x4.extend_low_i16x8_u", |x: u16| u32::from(x));
    t.map1_high("i32x4.extend_high_i16x8_u", |x: u16| u32::from(x));
    t.map1("i64x2.extend_low_i32x4_s", |x: i32| i64::from(x));
    t.map1_high("i64x2.extend_high_i32x4_s", |x: i32| i64::from(x));
    t.map1("i64x2.extend_low_i32x4_u", |x: u32| u64::from(x));
    t.map1_high("i64x2.extend_high_i32x4_u", |x: u32| u64::from(x));
    t.pairs("i16x8.extadd_pairwise_i8x16_s", |x: i8, y: i8| i16::from(x) + i16::from(y));
    t.pairs("i16x8.extadd_pairwise_i8x16_u", |x: u8, y: u8| u16::from(x) + u16::from(y));
    t.pairs("i32x4.extadd_pairwise_i16x8_s", |x: i16, y: i16| i32::from(x) + i32::from(y));
    t.pairs("i32x4.extadd_pairwise_i16x8_u", |x: u16, y: u16| u32::from(x) + u32::from(y));
}

fn products(t: &mut Table) {
    t.map2("i16x8.extmul_low_i8x16_s", |x: i8, y| i16::from(x) * i16::from(y));
    t.map2_high("i16x8.extmul_high_i8x16_s", |x: i8, y| i16::from(x) * i16::from(y));
    t.map2("i16x8.extmul_low_i8x16_u", |x: u8, y| u16::from(x) * u16::from(y));
    t.map2_high("i16x8.extmul_high_i8x16_u", |x: u8, y| u16::from(x) * u16::from(y));
    t.map2("i32x4.extmul_low_i16x8_s", |x: i16, y| i32::from(x) * i32::from(y));
    t.map2_high("i32x4.extmul_high_i16x8_s", |x: i16, y| i32::from(x) * i32::from(y));
    t.map2("i32x4.extmul_low_i16x8_u", |x: u16, y| u32::from(x) * u32::from(y));
    t.map2_high("i32x4.extmul_high_i16x8_u", |x: u16, y| u32::from(x) * u32::from(y));
    t.map2("i64x2.extmul_low_i32x4_s", |x: i32, y| i64::from(x) * i64::from(y));
    t.map2_high("i64x2.extmul_high_i32x4_s", |x: i32, y| i64::from(x) * i64::from(y));
    t.map2("i64x2.extmul_low_i32x4_u", |x: u32, y| u64::from(x) * u64::from(y));
    t.map2_high("i64x2.extmul_high_i32x4_u", |x: u32, y| u64::from(x) * u64::from(y));
    t.operator("i32x4.dot_i16x8_s", &[Param::Vector(Kind::I16); 2], Ty::V128, |args| {
        let products: Vec<i32> = lanes::<i16>(args[0])
            .into_iter()
            .zip(lanes::<i16>(args[1]))
            .map(|(x, y)| i32::from(x) * i32::from(y))
            .collect();
        pack(products.chunks_exact(2).map(|pair| pair[0].wrapping_add(pair[1])))
    });
}
