//! Floating-point operators and conversions, a lane at a time.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "`as` saturates and rounds exactly as wasm's conversions do"
)]

use crate::case::Table;
use crate::lanes::Kind;

pub(crate) fn table(t: &mut Table) {
    arithmetic(t);
    signs(t);
    pseudo(t);
    relations(t);
    conversions(t);
}

/// `min` and `max` of core spec 4.3.4: NaN wins, and −0 is below +0.
macro_rules! wasm_min {
    ($ty:ident) => {
        |x: $ty, y: $ty| match () {
            () if x.is_nan() || y.is_nan() => $ty::NAN,
            () if x == y => $ty::from_bits(x.to_bits() | y.to_bits()),
            () if x < y => x,
            () => y,
        }
    };
}

macro_rules! wasm_max {
    ($ty:ident) => {
        |x: $ty, y: $ty| match () {
            () if x.is_nan() || y.is_nan() => $ty::NAN,
            () if x == y => $ty::from_bits(x.to_bits() & y.to_bits()),
            () if x > y => x,
            () => y,
        }
    };
}

pub(crate) use {wasm_max, wasm_min};

fn arithmetic(t: &mut Table) {
    t.map1("f32x4.ceil", f32::ceil);
    t.map1("f64x2.ceil", f64::ceil);
    t.map1("f32x4.floor", f32::floor);
    t.map1("f64x2.floor", f64::floor);
    t.map1("f32x4.trunc", f32::trunc);
    t.map1("f64x2.trunc", f64::trunc);
    t.map1("f32x4.nearest", f32::round_ties_even);
    t.map1("f64x2.nearest", f64::round_ties_even);
    t.map1("f32x4.sqrt", f32::sqrt);
    t.map1("f64x2.sqrt", f64::sqrt);
    t.map2("f32x4.add", |x: f32, y: f32| x + y);
    t.map2("f64x2.add", |x: f64, y: f64| x + y);
    t.map2("f32x4.sub", |x: f32, y: f32| x - y);
    t.map2("f64x2.sub", |x: f64, y: f64| x - y);
    t.map2("f32x4.mul", |x: f32, y: f32| x * y);
    t.map2("f64x2.mul", |x: f64, y: f64| x * y);
    t.map2("f32x4.div", |x: f32, y: f32| x / y);
    t.map2("f64x2.div", |x: f64, y: f64| x / y);
    t.map2("f32x4.min", wasm_min!(f32));
    t.map2("f64x2.min", wasm_min!(f64));
    t.map2("f32x4.max", wasm_max!(f32));
    t.map2("f64x2.max", wasm_max!(f64));
}

/// Signs are bits: a NaN keeps its payload, even a signalling one.
fn signs(t: &mut Table) {
    t.map1("f32x4.abs", |x: u32| x & !(1 << 31)).on(Kind::F32);
    t.map1("f64x2.abs", |x: u64| x & !(1 << 63)).on(Kind::F64);
    t.map1("f32x4.neg", |x: u32| x ^ 1 << 31).on(Kind::F32);
    t.map1("f64x2.neg", |x: u64| x ^ 1 << 63).on(Kind::F64);
}

/// `pmin` and `pmax` return one of their operands as it is.
fn pseudo(t: &mut Table) {
    t.map2("f32x4.pmin", |x: u32, y: u32| if f32::from_bits(y) < f32::from_bits(x) { y } else { x }).on(Kind::F32);
    t.map2("f64x2.pmin", |x: u64, y: u64| if f64::from_bits(y) < f64::from_bits(x) { y } else { x }).on(Kind::F64);
    t.map2("f32x4.pmax", |x: u32, y: u32| if f32::from_bits(x) < f32::from_bits(y) { y } else { x }).on(Kind::F32);
    t.map2("f64x2.pmax", |x: u64, y: u64| if f64::from_bits(x) < f64::from_bits(y) { y } else { x }).on(Kind::F64);
}

macro_rules! relations {
    ($table:ident, $shape:literal, $ty:ty) => {
        $table.relation(concat!($shape, ".eq"), |x: $ty, y| x == y);
        $table.relation(concat!($shape, ".ne"), |x: $ty, y| x != y);
        $table.relation(concat!($shape, ".lt"), |x: $ty, y| x < y);
        $table.relation(concat!($shape, ".gt"), |x: $ty, y| x > y);
        $table.relation(concat!($shape, ".le"), |x: $ty, y| x <= y);
        $table.relation(concat!($shape, ".ge"), |x: $ty, y| x >= y);
    };
}

#[expect(clippy::float_cmp, reason = "wasm's comparison is exact")]
fn relations(t: &mut Table) {
    relations!(t, "f32x4", f32);
    relations!(t, "f64x2", f64);
}

fn conversions(t: &mut Table) {
    t.map1("i32x4.trunc_sat_f32x4_s", |x: f32| x as i32);
    t.map1("i32x4.trunc_sat_f32x4_u", |x: f32| x as u32);
    t.map1("i32x4.trunc_sat_f64x2_s_zero", |x: f64| x as i32);
    t.map1("i32x4.trunc_sat_f64x2_u_zero", |x: f64| x as u32);
    t.map1("f32x4.convert_i32x4_s", |x: i32| x as f32);
    t.map1("f32x4.convert_i32x4_u", |x: u32| x as f32);
    t.map1("f64x2.convert_low_i32x4_s", |x: i32| f64::from(x));
    t.map1("f64x2.convert_low_i32x4_u", |x: u32| f64::from(x));
    t.map1("f32x4.demote_f64x2_zero", |x: f64| x as f32);
    t.map1("f64x2.promote_low_f32x4", |x: f32| f64::from(x));
}
