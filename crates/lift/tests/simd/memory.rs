//! Loads and stores, at any alignment and with a static offset. Bytes beside a store must stay.

use crate::case::{Param, Table, Ty};
use crate::lanes::{Kind, Lane, pack, pack_raw, raw_lanes};

pub(crate) fn table(t: &mut Table) {
    for offset in [0, 7] {
        whole(t, offset);
        widening::<i8, i16>(t, "v128.load8x8_s", offset, i16::from);
        widening::<u8, u16>(t, "v128.load8x8_u", offset, u16::from);
        widening::<i16, i32>(t, "v128.load16x4_s", offset, i32::from);
        widening::<u16, u32>(t, "v128.load16x4_u", offset, u32::from);
        widening::<i32, i64>(t, "v128.load32x2_s", offset, i64::from);
        widening::<u32, u64>(t, "v128.load32x2_u", offset, u64::from);
        for (bits, kind) in [(8, Kind::I8), (16, Kind::I16), (32, Kind::I32), (64, Kind::I64)] {
            splat(t, bits, kind, offset);
            for lane in 0..16 / kind.bytes() {
                load_lane(t, bits, kind, offset, lane);
                store_lane(t, bits, kind, offset, lane);
            }
        }
        zero(t, 32, Kind::I32, offset);
        zero(t, 64, Kind::I64, offset);
    }
}

fn place(address: u128, offset: usize) -> usize {
    usize::try_from(address).expect("addresses are small") + offset
}

fn word(memory: &[u8], at: usize, kind: Kind) -> u128 {
    let mut word = [0; 16];
    word[..kind.bytes()].copy_from_slice(&memory[at..at + kind.bytes()]);
    u128::from_le_bytes(word)
}

fn whole(t: &mut Table, offset: usize) {
    t.memory(&format!("v128.load offset={offset}"), &[Param::Address], Some(Ty::V128), move |args, memory| {
        let at = place(args[0], offset);
        u128::from_le_bytes(memory[at..at + 16].try_into().expect("16 bytes"))
    });
    // Stored as it comes, and in the shape that an operator left it in.
    let params = [Param::Address, Param::Vector(Kind::I32)];
    t.memory(&format!("v128.store offset={offset}"), &params, None, move |args, memory| {
        let at = place(args[0], offset);
        memory[at..at + 16].copy_from_slice(&args[1].to_le_bytes());
        0
    });
    t.memory(&format!("v128.store offset={offset}"), &params, None, move |args, memory| {
        let at = place(args[0], offset);
        let sums = raw_lanes(Kind::I32, args[1]).map(|x| u32::from_bits(x).wrapping_add(u32::from_bits(x)));
        memory[at..at + 16].copy_from_slice(&pack(sums).to_le_bytes());
        0
    });
    let case = t.0.last_mut().expect("one was pushed");
    case.body = format!("(v128.store offset={offset} (local.get 0) (i32x4.add (local.get 1) (local.get 1)))");
}

fn widening<T: Lane, R: Lane>(t: &mut Table, name: &str, offset: usize, f: impl Fn(T) -> R + 'static) {
    t.memory(&format!("{name} offset={offset}"), &[Param::Address], Some(Ty::V128), move |args, memory| {
        let at = place(args[0], offset);
        pack((at..at + 8).step_by(T::KIND.bytes()).map(|at| f(T::from_bits(word(memory, at, T::KIND)))))
    });
}

fn splat(t: &mut Table, bits: u32, kind: Kind, offset: usize) {
    let name = format!("v128.load{bits}_splat offset={offset}");
    t.memory(&name, &[Param::Address], Some(Ty::V128), move |args, memory| {
        pack_raw(kind, std::iter::repeat_n(word(memory, place(args[0], offset), kind), 16 / kind.bytes()))
    });
}

fn zero(t: &mut Table, bits: u32, kind: Kind, offset: usize) {
    let name = format!("v128.load{bits}_zero offset={offset}");
    t.memory(&name, &[Param::Address], Some(Ty::V128), move |args, memory| word(memory, place(args[0], offset), kind));
}

fn load_lane(t: &mut Table, bits: u32, kind: Kind, offset: usize, lane: usize) {
    let name = format!("v128.load{bits}_lane offset={offset} {lane}");
    let params = [Param::Address, Param::Vector(kind)];
    t.memory(&name, &params, Some(Ty::V128), move |args, memory| {
        let mut bytes = args[1].to_le_bytes();
        let at = place(args[0], offset);
        bytes[lane * kind.bytes()..][..kind.bytes()].copy_from_slice(&memory[at..at + kind.bytes()]);
        u128::from_le_bytes(bytes)
    });
}

fn store_lane(t: &mut Table, bits: u32, kind: Kind, offset: usize, lane: usize) {
    let name = format!("v128.store{bits}_lane offset={offset} {lane}");
    t.memory(&name, &[Param::Address, Param::Vector(kind)], None, move |args, memory| {
        let at = place(args[0], offset);
        memory[at..at + kind.bytes()].copy_from_slice(&args[1].to_le_bytes()[lane * kind.bytes()..][..kind.bytes()]);
        0
    });
}
