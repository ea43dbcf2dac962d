//! Operators that move lanes and bits, and compositions in which a value is seen in several shapes.

use crate::case::{Param, Table, Ty};
use crate::lanes::{Kind, Lane, lanes, pack, pack_raw, raw_lanes};

const BYTES: Param = Param::Vector(Kind::I8);
const WORDS: Param = Param::Vector(Kind::I32);

pub(crate) fn table(t: &mut Table) {
    constants(t);
    shuffles(t);
    splats(t);
    extractions(t);
    replacements(t);
    logic(t);
    reductions(t);
    compositions(t);
}

fn constants(t: &mut Table) {
    let text = "(v128.const i8x16 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 255)";
    t.body(text, &[Param::Scalar(Kind::I32)], Ty::V128, |_| pack((0u8..15).chain([255])));
    t.body("(v128.const i64x2 0 0)", &[Param::Scalar(Kind::I32)], Ty::V128, |_| 0);
    t.body("(v128.const i64x2 -1 -1)", &[Param::Scalar(Kind::I32)], Ty::V128, |_| u128::MAX);
}

fn shuffles(t: &mut Table) {
    // Those that back ends know by heart (interleave, broadcast, align, swap, blend), and two that nobody does.
    let masks: [[u8; 16]; 10] = [
        [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23],
        [8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31],
        [0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23],
        [5; 16],
        [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18],
        [12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3],
        [0, 1, 18, 19, 4, 5, 22, 23, 8, 9, 26, 27, 12, 13, 30, 31],
        [16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31],
        [31, 0, 15, 16, 7, 23, 1, 30, 2, 29, 3, 28, 4, 27, 5, 26],
        [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
    ];
    for mask in masks {
        let text: Vec<String> = mask.iter().map(u8::to_string).collect();
        t.operator(&format!("i8x16.shuffle {}", text.join(" ")), &[BYTES; 2], Ty::V128, move |args| {
            let both: Vec<u8> = lanes(args[0]).into_iter().chain(lanes(args[1])).collect();
            pack(mask.map(|at| both[usize::from(at)]))
        });
    }
    t.operator("i8x16.swizzle", &[BYTES; 2], Ty::V128, |args| {
        let from: Vec<u8> = lanes(args[0]);
        pack(lanes(args[1]).into_iter().map(|at: u8| from.get(usize::from(at)).copied().unwrap_or(0)))
    });
}

fn splats(t: &mut Table) {
    let shapes = [
        ("i8x16", Kind::I8),
        ("i16x8", Kind::I16),
        ("i32x4", Kind::I32),
        ("i64x2", Kind::I64),
        ("f32x4", Kind::F32),
        ("f64x2", Kind::F64),
    ];
    for (shape, kind) in shapes {
        t.operator(&format!("{shape}.splat"), &[Param::Scalar(kind)], Ty::V128, move |args| {
            pack_raw(kind, std::iter::repeat_n(narrow(kind, args[0]), 16 / kind.bytes()))
        });
    }
}

/// The low bits that a lane keeps.
fn narrow(kind: Kind, bits: u128) -> u128 {
    bits & (u128::MAX >> (128 - 8 * kind.bytes()))
}

fn extractions(t: &mut Table) {
    for lane in [0, 1, 7, 8, 15] {
        extraction(t, &format!("i8x16.extract_lane_s {lane}"), lane, Ty::I32, |x: i8| i32::from(x));
        extraction(t, &format!("i8x16.extract_lane_u {lane}"), lane, Ty::I32, |x: u8| u32::from(x));
    }
    for lane in [0, 1, 4, 7] {
        extraction(t, &format!("i16x8.extract_lane_s {lane}"), lane, Ty::I32, |x: i16| i32::from(x));
        extraction(t, &format!("i16x8.extract_lane_u {lane}"), lane, Ty::I32, |x: u16| u32::from(x));
    }
    for lane in 0..4 {
        extraction(t, &format!("i32x4.extract_lane {lane}"), lane, Ty::I32, |x: u32| x);
        extraction(t, &format!("f32x4.extract_lane {lane}"), lane, Ty::F32, |x: f32| x);
    }
    for lane in 0..2 {
        extraction(t, &format!("i64x2.extract_lane {lane}"), lane, Ty::I64, |x: u64| x);
        extraction(t, &format!("f64x2.extract_lane {lane}"), lane, Ty::F64, |x: f64| x);
    }
}

fn extraction<T: Lane, R: Lane>(t: &mut Table, name: &str, lane: usize, ty: Ty, f: impl Fn(T) -> R + 'static) {
    t.operator(name, &[Param::Vector(T::KIND)], ty, move |args| f(lanes(args[0])[lane]).bits());
}

fn replacements(t: &mut Table) {
    let shapes = [
        ("i8x16", Kind::I8),
        ("i16x8", Kind::I16),
        ("i32x4", Kind::I32),
        ("i64x2", Kind::I64),
        ("f32x4", Kind::F32),
        ("f64x2", Kind::F64),
    ];
    for (shape, kind) in shapes {
        for lane in 0..16 / kind.bytes() {
            let params = [Param::Vector(kind), Param::Scalar(kind)];
            t.operator(&format!("{shape}.replace_lane {lane}"), &params, Ty::V128, move |args| {
                let old = raw_lanes(kind, args[0]).map(|old| narrow(kind, old)).enumerate();
                pack_raw(kind, old.map(|(at, old)| if at == lane { narrow(kind, args[1]) } else { old }))
            });
        }
    }
}

fn logic(t: &mut Table) {
    t.operator("v128.not", &[BYTES], Ty::V128, |args| !args[0]);
    t.operator("v128.and", &[BYTES; 2], Ty::V128, |args| args[0] & args[1]);
    t.operator("v128.andnot", &[BYTES; 2], Ty::V128, |args| args[0] & !args[1]);
    t.operator("v128.or", &[BYTES; 2], Ty::V128, |args| args[0] | args[1]);
    t.operator("v128.xor", &[BYTES; 2], Ty::V128, |args| args[0] ^ args[1]);
    t.operator("v128.bitselect", &[BYTES; 3], Ty::V128, |args| args[0] & args[2] | args[1] & !args[2]);
}

fn reductions(t: &mut Table) {
    t.operator("v128.any_true", &[BYTES], Ty::I32, |args| u128::from(args[0] != 0));
    for (shape, kind) in [("i8x16", Kind::I8), ("i16x8", Kind::I16), ("i32x4", Kind::I32), ("i64x2", Kind::I64)] {
        t.operator(&format!("{shape}.all_true"), &[Param::Vector(kind)], Ty::I32, move |args| {
            u128::from(raw_lanes(kind, args[0]).all(|lane| narrow(kind, lane) != 0))
        });
        t.operator(&format!("{shape}.bitmask"), &[Param::Vector(kind)], Ty::I32, move |args| {
            let sign = 8 * kind.bytes() - 1;
            raw_lanes(kind, args[0]).enumerate().fold(0, |mask, (at, lane)| mask | (lane >> sign & 1) << at)
        });
    }
}

/// Values that change shape between operators, meet at a join, or are kept in a local.
fn compositions(t: &mut Table) {
    let less = |x: f32, y: f32| if x < y { u32::MAX } else { 0 };
    t.body(
        "(v128.bitselect (i32x4.add (local.get 0) (local.get 1)) (f64x2.neg (local.get 0))
                         (f32x4.lt (local.get 0) (local.get 1)))",
        &[Param::Vector(Kind::F32); 2],
        Ty::V128,
        move |args| {
            let words = |at: usize| lanes::<u32>(args[at]).into_iter();
            let sum = pack(words(0).zip(words(1)).map(|(x, y)| x.wrapping_add(y)));
            let negated = pack(lanes::<u64>(args[0]).into_iter().map(|x| x ^ 1 << 63));
            let mask = pack(lanes(args[0]).into_iter().zip(lanes(args[1])).map(|(x, y)| less(x, y)));
            sum & mask | negated & !mask
        },
    );
    // The mask of one width selects lanes of another.
    t.body(
        "(v128.bitselect (local.get 0) (local.get 1) (i8x16.gt_s (local.get 0) (i16x8.neg (local.get 1))))",
        &[BYTES; 2],
        Ty::V128,
        |args| {
            let negated = pack(lanes(args[1]).into_iter().map(i16::wrapping_neg));
            let bytes = lanes::<i8>(args[0]).into_iter().zip(lanes::<i8>(negated));
            let mask = pack(bytes.map(|(x, y)| if x > y { u8::MAX } else { 0 }));
            args[0] & mask | args[1] & !mask
        },
    );
    t.body(
        "(v128.andnot (f32x4.neg (local.get 0)) (i16x8.sub (local.get 1) (local.get 0)))",
        &[WORDS; 2],
        Ty::V128,
        |args| {
            let negated: u128 = pack(lanes::<u32>(args[0]).into_iter().map(|x| x ^ 1 << 31));
            let words = lanes::<u16>(args[1]).into_iter().zip(lanes::<u16>(args[0]));
            negated & !pack(words.map(|(x, y)| x.wrapping_sub(y)))
        },
    );
    t.body(
        "(if (result v128) (v128.any_true (i16x8.eq (local.get 0) (local.get 1)))
           (then (i64x2.add (local.get 0) (local.get 1)))
           (else (local.set 0 (f32x4.neg (local.get 0))) (i32x4.sub (local.get 0) (local.get 1))))",
        &[Param::Vector(Kind::I16); 2],
        Ty::V128,
        |args| {
            let equal = lanes::<u16>(args[0]).into_iter().zip(lanes::<u16>(args[1])).any(|(x, y)| x == y);
            if equal {
                let longs = lanes::<u64>(args[0]).into_iter().zip(lanes::<u64>(args[1]));
                return pack(longs.map(|(x, y)| x.wrapping_add(y)));
            }
            let words = lanes::<u32>(args[0]).into_iter().zip(lanes::<u32>(args[1]));
            pack(words.map(|(x, y)| (x ^ 1 << 31).wrapping_sub(y)))
        },
    );
    t.body(
        "(select (f32x4.neg (local.get 0)) (i8x16.neg (local.get 0)) (i8x16.all_true (local.get 1)))",
        &[BYTES; 2],
        Ty::V128,
        |args| {
            if lanes::<u8>(args[1]).iter().all(|x| *x != 0) {
                pack(lanes::<u32>(args[0]).into_iter().map(|x| x ^ 1 << 31))
            } else {
                pack(lanes::<i8>(args[0]).into_iter().map(i8::wrapping_neg))
            }
        },
    );
    // A truth value used as a number.
    t.body(
        "(i8x16.splat (i32.add (v128.any_true (local.get 0)) (i32x4.all_true (local.get 0))))",
        &[WORDS],
        Ty::V128,
        |args| {
            let any = u8::from(args[0] != 0);
            pack([any + u8::from(lanes::<u32>(args[0]).iter().all(|x| *x != 0)); 16])
        },
    );
}
