//! Relaxed operators: with each fact about the target, the one result that its instructions give.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates exactly as wasm's conversions do"
)]

use spinwise_lift::Relaxed;

use crate::case::{Param, Table, Ty};
use crate::float::{wasm_max, wasm_min};
use crate::lanes::{Kind, Lane, lanes, pack};

pub(crate) fn table(t: &mut Table, relaxed: Relaxed) {
    let Relaxed { x86, ssse3, sse41, fma } = relaxed;
    t.operator("i8x16.relaxed_swizzle", &[Param::Vector(Kind::I8); 2], Ty::V128, move |args| {
        let from: Vec<u8> = lanes(args[0]);
        pack(lanes::<u8>(args[1]).into_iter().map(|at| match at {
            0..16 => from[usize::from(at)],
            16..128 if ssse3 => from[usize::from(at % 16)],
            _ => 0,
        }))
    });

    let least_where_it_does_not_fit = move |x: f64| {
        let fits = (-2_147_483_649.0..2_147_483_648.0).contains(&x) && x > -2_147_483_649.0;
        if x86 && !fits { i32::MIN } else { x as i32 }
    };
    t.map1("i32x4.relaxed_trunc_f32x4_s", move |x: f32| least_where_it_does_not_fit(x.into()));
    t.map1("i32x4.relaxed_trunc_f64x2_s_zero", least_where_it_does_not_fit);
    t.map1("i32x4.relaxed_trunc_f32x4_u", |x: f32| x as u32);
    t.map1("i32x4.relaxed_trunc_f64x2_u_zero", |x: f64| x as u32);

    map3(t, "f32x4.relaxed_madd", move |x: f32, y, z| if fma { x.mul_add(y, z) } else { x * y + z });
    map3(t, "f64x2.relaxed_madd", move |x: f64, y, z| if fma { x.mul_add(y, z) } else { x * y + z });
    map3(t, "f32x4.relaxed_nmadd", move |x: f32, y, z| if fma { (-x).mul_add(y, z) } else { -x * y + z });
    map3(t, "f64x2.relaxed_nmadd", move |x: f64, y, z| if fma { (-x).mul_add(y, z) } else { -x * y + z });

    select(t, "i8x16.relaxed_laneselect", Kind::I8, sse41);
    select(t, "i16x8.relaxed_laneselect", Kind::I16, false);
    select(t, "i32x4.relaxed_laneselect", Kind::I32, sse41);
    select(t, "i64x2.relaxed_laneselect", Kind::I64, sse41);

    if x86 {
        // As it is: a signalling NaN too.
        let f32s =
            |f: fn(f32, f32) -> bool| move |x: u32, y: u32| if f(f32::from_bits(x), f32::from_bits(y)) { y } else { x };
        let f64s =
            |f: fn(f64, f64) -> bool| move |x: u64, y: u64| if f(f64::from_bits(x), f64::from_bits(y)) { y } else { x };
        t.map2("f32x4.relaxed_min", f32s(|x, y| y < x)).on(Kind::F32);
        t.map2("f64x2.relaxed_min", f64s(|x, y| y < x)).on(Kind::F64);
        t.map2("f32x4.relaxed_max", f32s(|x, y| x < y)).on(Kind::F32);
        t.map2("f64x2.relaxed_max", f64s(|x, y| x < y)).on(Kind::F64);
    } else {
        t.map2("f32x4.relaxed_min", wasm_min!(f32));
        t.map2("f64x2.relaxed_min", wasm_min!(f64));
        t.map2("f32x4.relaxed_max", wasm_max!(f32));
        t.map2("f64x2.relaxed_max", wasm_max!(f64));
    }

    t.map2("i16x8.relaxed_q15mulr_s", move |x: i16, y: i16| {
        let product = (i32::from(x) * i32::from(y) + 0x4000) >> 15;
        if ssse3 { product as i16 } else { product.min(0x7fff) as i16 }
    });

    t.operator("i16x8.relaxed_dot_i8x16_i7x16_s", &[Param::Vector(Kind::I8); 2], Ty::V128, move |args| {
        pack(dot(args, ssse3))
    });
    let params = [Param::Vector(Kind::I8), Param::Vector(Kind::I8), Param::Vector(Kind::I32)];
    t.operator("i32x4.relaxed_dot_i8x16_i7x16_add_s", &params, Ty::V128, move |args| {
        let sums = dot(args, ssse3);
        let fours = sums.chunks_exact(2).map(|pair| i32::from(pair[0]) + i32::from(pair[1]));
        pack(fours.zip(lanes::<i32>(args[2])).map(|(x, y)| x.wrapping_add(y)))
    });
}

/// Sums of neighbouring products, saturated.
fn dot(args: &[u128], unsigned: bool) -> Vec<i16> {
    let second: Vec<i32> = if unsigned {
        lanes::<u8>(args[1]).into_iter().map(i32::from).collect()
    } else {
        lanes::<i8>(args[1]).into_iter().map(i32::from).collect()
    };
    let products: Vec<i32> = lanes::<i8>(args[0]).into_iter().zip(second).map(|(x, y)| i32::from(x) * y).collect();
    products.chunks_exact(2).map(|pair| (pair[0] + pair[1]).clamp(-0x8000, 0x7fff) as i16).collect()
}

/// Lane by lane from three vectors.
fn map3<T: Lane>(t: &mut Table, name: &str, f: impl Fn(T, T, T) -> T + 'static) {
    let case = t.operator(name, &[Param::Vector(T::KIND); 3], Ty::V128, move |args| {
        let thirds = lanes(args[2]).into_iter();
        let pairs = lanes(args[0]).into_iter().zip(lanes(args[1]));
        pack(pairs.zip(thirds).map(|((x, y), z)| f(x, y, z)))
    });
    case.nans = Some(T::KIND);
}

/// One vector or the other: by each bit of a mask, or by the highest bit of each lane.
fn select(t: &mut Table, name: &str, kind: Kind, by_highest_bit: bool) {
    t.operator(name, &[Param::Vector(kind); 3], Ty::V128, move |args| {
        let width = 8 * kind.bytes();
        let lane = u128::MAX >> (128 - width);
        let highest = |at: usize| if args[2] >> (at + width - 1) & 1 == 1 { lane << at } else { 0 };
        let mask =
            if by_highest_bit { (0..128).step_by(width).map(highest).fold(0, |all, one| all | one) } else { args[2] };
        args[0] & mask | args[1] & !mask
    });
}
