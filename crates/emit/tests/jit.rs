//! Code placed in this process runs, and the image describes it.

#![expect(unsafe_code, reason = "calls generated code")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{compiled, host, load, module, no_builtins, parse};
use spinwise_emit::{Cpu, Error, Target};
use spinwise_model::index::{FuncIndex, TypeIndex};
use spinwise_model::symbol::Builtin;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::{FuncType, ValType};

/// The C convention of the host in CLIF text.
const C: &str = if cfg!(windows) {
    "windows_fastcall"
} else if cfg!(target_vendor = "apple") {
    "apple_aarch64"
} else {
    "system_v"
};

/// A host entry that passes one `i64` to a function of the guest convention and returns its result.
fn entry() -> String {
    format!(
        "function u3:0(i64, i64, i64) -> i64 {C} {{
            sig0 = (i64, i64) -> i64 tail
        block0(v0: i64, v1: i64, v2: i64):
            v3 = call_indirect sig0, v1(v0, v2)
            return v3
        }}\n"
    )
}

/// Calls function `index` through the entry.
fn call(image: &spinwise_model::image::CodeImage, index: u32, arg: u64) -> u64 {
    let entry = image.host_entries[&TypeIndex(0)];
    let entry = std::ptr::with_exposed_provenance::<u8>(entry);
    // SAFETY: the entry was compiled with exactly this signature and convention.
    let entry = unsafe { std::mem::transmute::<*const u8, extern "C" fn(u64, usize, u64) -> u64>(entry) };
    entry(0, image.functions[index as usize], arg)
}

#[test]
fn functions_call_each_other_and_themselves() {
    let text = entry()
        + "function u0:0(i64, i64) -> i64 tail {
            fn0 = colocated u0:1(i64, i64) -> i64 tail
            fn1 = colocated u0:0(i64, i64) -> i64 tail
        block0(v0: i64, v1: i64):
            brif v1, block1, block2
        block1:
            v2 = iconst.i64 -1
            v3 = iadd v1, v2
            v4 = call fn1(v0, v3)
            v5 = call fn0(v0, v4)
            return v5
        block2:
            return v1
        }
        function u0:1(i64, i64) -> i64 tail {
        block0(v0: i64, v1: i64):
            v2 = iconst.i64 3
            v3 = iadd v1, v2
            return v3
        }";
    let image = load(&Target::default(), &module(0, 2), &text, &no_builtins);
    assert_eq!(call(&image, 0, 5), 15);
    assert_eq!(call(&image, 1, 5), 8);

    assert_eq!(image.ranges.len(), 3);
    assert!(image.ranges.windows(2).all(|pair| pair[0].addresses.end <= pair[1].addresses.start));
    assert!(
        image
            .ranges
            .iter()
            .all(|range| { image.text.start <= range.addresses.start && range.addresses.end <= image.text.end })
    );
    let range = image.range_at(image.functions[1]).expect("its own range");
    assert_eq!(range.function, Some(FuncIndex(1)));
}

#[test]
fn builtins_are_called_by_address() {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn data_drop(vmctx: u64, segment: u32) {
        SEEN.store(vmctx + u64::from(segment), Ordering::Relaxed);
    }
    let index = Builtin::DataDrop.index();
    let text = entry()
        + &format!(
            "function u0:0(i64, i64) -> i64 tail {{
                fn0 = u1:{index}(i64, i32) {C}
            block0(v0: i64, v1: i64):
                v2 = iconst.i32 7
                call fn0(v1, v2)
                return v1
            }}"
        );
    let image = load(&Target::default(), &module(0, 1), &text, &|builtin| {
        assert_eq!(builtin, Builtin::DataDrop);
        data_drop as *const u8
    });
    assert_eq!(call(&image, 0, 100), 100);
    assert_eq!(SEEN.load(Ordering::Relaxed), 107);
}

#[test]
fn calls_with_handlers_are_known_by_their_return_addresses() {
    let text = entry()
        + "function u0:0(i64, i64) -> i64 tail {
            sig0 = (i64, i64) -> i64 tail
            fn0 = colocated u0:1 sig0
        block0(v0: i64, v1: i64):
            v9 = call fn0(v0, v1)
            try_call fn0(v0, v9), sig0, block1(ret0), [ default: block3(exn0, v9) ]
        block1(v2: i64):
            try_call_indirect v1(v0, v2), sig0, block2(ret0), [ default: block3(exn0, v2) ]
        block2(v3: i64):
            return v3
        block3(v4: i64, v5: i64) cold:
            v6 = iadd v4, v5
            return v6
        }
        function u0:1(i64, i64) -> i64 tail {
        block0(v0: i64, v1: i64):
            v2 = iconst.i64 3
            v3 = iadd v1, v2
            return v3
        }";
    let image = load(&Target::default(), &module(0, 2), &text, &no_builtins);
    let range = image.range_at(image.functions[0]).expect("its own range").addresses.clone();
    assert_eq!(image.handlers.len(), 2, "the plain call has none");
    assert!(image.handlers.windows(2).all(|pair| pair[0].return_address < pair[1].return_address));
    for site in &image.handlers {
        assert!(range.contains(&site.return_address) && range.contains(&site.handler), "{site:x?}");
        assert!(site.frame.is_multiple_of(16) && site.frame >= 40, "all registers that calls keep are lost: {site:?}");
        assert_eq!(image.handler_at(site.return_address), Some(site));
        assert_eq!(image.handler_at(site.return_address + 1), None);
    }
}

#[test]
fn traps_carry_code_and_wasm_offset() {
    let text = entry()
        + "function u0:0(i64, i64) -> i64 tail {
        block0(v0: i64, v1: i64):
            @0010 v2 = load.i64 little user2 v1
            @0012 trapz v2, user1
            @0020 v3 = udiv v2, v1
            @0030 v4 = iconst.i64 9
            @0032 v5 = sdiv v3, v4
            @0040 v6 = bitcast.f64 v5
            @0050 v7 = fcvt_to_sint.i64 v6
            trapz v7, user14
            @0060 return v7
        }";
    let image = load(&Target::default(), &module(0, 1), &text, &no_builtins);
    let found: Vec<_> = image.traps.iter().map(|trap| (TrapCode::from_raw(trap.code), trap.wasm_offset)).collect();
    assert!(image.traps.windows(2).all(|pair| pair[0].address < pair[1].address));
    for expected in [
        (TrapCode::MemoryOutOfBounds, 0x10),
        (TrapCode::Unreachable, 0x12),
        (TrapCode::IntegerDivideByZero, 0x20),
        (TrapCode::InvalidConversion, 0x50),
        (TrapCode::IntegerOverflow, 0x50),
        (TrapCode::Interrupted, u32::MAX),
    ] {
        assert!(found.contains(&(Some(expected.0), expected.1)), "{expected:x?} is not in {found:x?}");
    }
    for trap in &image.traps {
        assert_eq!(image.trap_at(trap.address), Some(trap));
        let range = image.range_at(trap.address).expect("in a function");
        assert_eq!(range.function, Some(FuncIndex(0)));
    }
    let load = image.traps.iter().find(|trap| trap.code == TrapCode::MemoryOutOfBounds.raw()).expect("checked above");
    assert_eq!(image.wasm_offset_at(load.address), Some(0x10));
}

/// What [`rounding`] rounds, and to what: ceil, floor, trunc, nearest.
const ROUNDED: [(f64, [f64; 4]); 4] = [
    (2.5, [3.0, 2.0, 2.0, 2.0]),
    (-2.5, [-2.0, -3.0, -2.0, -2.0]),
    (-0.25, [-0.0, -1.0, -0.0, -0.0]),
    (1e300, [1e300; 4]),
];

fn float_helpers(builtin: Builtin) -> *const u8 {
    macro_rules! rounding {
        ($type:ty, $method:ident) => {{
            extern "C" fn helper(value: $type) -> $type {
                value.$method()
            }
            helper as *const u8
        }};
    }
    match builtin {
        Builtin::CeilF32 => rounding!(f32, ceil),
        Builtin::CeilF64 => rounding!(f64, ceil),
        Builtin::FloorF32 => rounding!(f32, floor),
        Builtin::FloorF64 => rounding!(f64, floor),
        Builtin::TruncF32 => rounding!(f32, trunc),
        Builtin::TruncF64 => rounding!(f64, trunc),
        Builtin::NearestF32 => rounding!(f32, round_ties_even),
        Builtin::NearestF64 => rounding!(f64, round_ties_even),
        other => panic!("{other:?} is no rounding"),
    }
}

#[test]
fn rounding_works_with_and_without_an_instruction_for_it() {
    let body = |index: usize, opcode: &str| {
        format!(
            "function u0:{index}(i64, i64) -> i64 tail {{
            block0(v0: i64, v1: i64):
                v2 = bitcast.f64 v1
                v3 = {opcode} v2
                v4 = bitcast.i64 v3
                return v4
            }}\n"
        )
    };
    let bodies = ["ceil", "floor", "trunc", "nearest"].iter().enumerate().map(|(index, opcode)| body(index, opcode));
    let text = entry() + &bodies.collect::<String>();
    for cpu in [Cpu::Baseline, Cpu::Native] {
        let image = load(&Target { cpu, ..Target::default() }, &module(0, 4), &text, &float_helpers);
        for (value, expected) in ROUNDED {
            for (index, expected) in (0..).zip(expected) {
                assert_eq!(call(&image, index, value.to_bits()), expected.to_bits(), "{value} {index} {cpu:?}");
            }
        }
    }
}

#[test]
fn byte_shuffles_work_with_and_without_an_instruction_for_them() {
    // Bytes 0..=15 selected by 16 indices whose low one is the argument; the result is its low byte and byte 1.
    let text = entry()
        + "function u0:0(i64, i64) -> i64 tail {
            const0 = 0x0f0e0d0c0b0a09080706050403020180
            const1 = 0x00000000000000000000000000000500
        block0(v0: i64, v1: i64):
            v2 = vconst.i8x16 const0
            v3 = vconst.i8x16 const1
            v4 = ireduce.i8 v1
            v5 = insertlane v3, v4, 0
            v6 = swizzle v2, v5
            v7 = extractlane v6, 0
            v8 = extractlane v6, 1
            v9 = uextend.i64 v7
            v10 = uextend.i64 v8
            v13 = iconst.i64 8
            v11 = ishl v10, v13
            v12 = bor v9, v11
            return v12
        }";
    for cpu in [Cpu::Baseline, Cpu::Native] {
        let image = load(&Target { cpu, ..Target::default() }, &module(0, 1), &text, &no_builtins);
        assert_eq!(call(&image, 0, 0), 0x580, "{cpu:?}");
        assert_eq!(call(&image, 0, 15), 0x50f, "{cpu:?}");
        assert_eq!(call(&image, 0, 16), 0x500, "{cpu:?}");
        assert_eq!(call(&image, 0, 0x80), 0x500, "{cpu:?}");
    }
}

#[test]
fn glue_serves_every_equal_type() {
    let mut module = module(0, 1);
    let other = FuncType { params: vec![ValType::I32], results: Vec::new() };
    module.types = [FuncType::default(), other, FuncType::default()].into_iter().collect();
    let text = entry()
        + "function u4:0(i64) tail {
        block0(v0: i64):
            return
        }
        function u5:2(i64) tail {
        block0(v0: i64):
            return
        }
        function u0:0(i64) tail {
        block0(v0: i64):
            return
        }";
    let image = load(&Target::default(), &module, &text, &no_builtins);
    assert_eq!(image.host_entries.keys().copied().collect::<Vec<_>>(), [TypeIndex(0), TypeIndex(2)]);
    assert_eq!(image.host_entries[&TypeIndex(0)], image.host_entries[&TypeIndex(2)]);
    assert_eq!(image.host_adapters.keys().copied().collect::<Vec<_>>(), [TypeIndex(0), TypeIndex(2)]);
    assert_eq!(image.reference_stubs[&TypeIndex(0)], image.reference_stubs[&TypeIndex(2)]);
    assert!(image.ranges.iter().filter(|range| range.function.is_none()).count() == 3);
}

#[test]
fn incomplete_code_is_refused() {
    let isa = host(&Target::default());
    let callless = "function u0:0(i64) tail {
        block0(v0: i64):
            return
        }";
    let calls = |name: &str| {
        format!(
            "function u0:0(i64) tail {{
                fn0 = {name}(i64) tail
            block0(v0: i64):
                call fn0(v0)
                return
            }}"
        )
    };
    let load = |functions: u32, text: &str| {
        let compiled = compiled(&isa, parse(text));
        spinwise_emit::load(&isa, &module(0, functions), compiled, &no_builtins).err()
    };
    for (error, word) in [
        (load(2, callless), "func[1]"),
        (load(1, &calls("colocated u0:7")), "u0:7"),
        (load(1, &calls("u1:99999")), "builtin 99999"),
        (load(1, &format!("{callless} {callless}")), "twice"),
    ] {
        let error = error.expect(word);
        assert!(matches!(error, Error::Link { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(load(1, callless).is_none());
}

#[test]
fn foreign_and_position_independent_code_is_refused() {
    let elsewhere = if cfg!(target_arch = "x86_64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };
    let foreign = Target { triple: Some(elsewhere.to_owned()), ..Target::default() };
    for (target, pic) in [(foreign, false), (Target::default(), true)] {
        let isa = spinwise_emit::isa(&target, pic).expect("supported");
        let error = spinwise_emit::load(&isa, &module(0, 0), Vec::new(), &no_builtins).expect_err("not for here");
        assert!(matches!(error, Error::ForeignCode { .. }), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn code_is_executable_read_only_and_freed_with_its_last_owner() {
    let protection = |address: usize| {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let start = usize::from_str_radix(start, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            (start..end).contains(&address).then(|| rest[..4].to_owned())
        })
    };
    let text = entry()
        + "function u0:0(i64, i64) -> i64 tail {
        block0(v0: i64, v1: i64):
            return v1
        }";
    let image = load(&Target::default(), &module(0, 1), &text, &no_builtins);
    let address = image.functions[0];
    assert_eq!(protection(address).as_deref(), Some("r-xp"));
    let owner = image.owner.clone();
    assert_eq!(call(&image, 0, 4), 4);
    drop(image);
    assert_eq!(protection(address).as_deref(), Some("r-xp"), "another owner is left");
    drop(owner);
    assert_ne!(protection(address).as_deref(), Some("r-xp"), "the memory is gone");
}
