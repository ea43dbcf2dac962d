//! Kinds of memory, and the accesses that there are.

/// A kind of memory. In a module its name is `$m`.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The type of an index.
    pub(super) index: &'static str,
    /// Its declaration, after whatever memories come before it.
    pub(super) memory: &'static str,
    /// Bytes at first.
    pub(super) bytes: u64,
    /// Bytes in a page.
    pub(super) page: u64,
}

/// Every kind whose accesses are made differently.
pub(super) const KINDS: &[Kind] = &[
    Kind { name: "i32", index: "i32", memory: "(memory $m 1 2)", bytes: 65536, page: 65536 },
    Kind { name: "i64", index: "i64", memory: "(memory $m i64 1 2)", bytes: 65536, page: 65536 },
    Kind { name: "bytes", index: "i32", memory: "(memory $m 75 200000 (pagesize 1))", bytes: 75, page: 1 },
    Kind { name: "i64 bytes", index: "i64", memory: "(memory $m i64 75 200000 (pagesize 1))", bytes: 75, page: 1 },
    Kind { name: "shared", index: "i32", memory: "(memory $m 1 2 shared)", bytes: 65536, page: 65536 },
    Kind { name: "i64 shared", index: "i64", memory: "(memory $m i64 1 2 shared)", bytes: 65536, page: 65536 },
    Kind { name: "second", index: "i32", memory: "(memory 3) (memory $m 1 2)", bytes: 65536, page: 65536 },
    Kind { name: "i64 second", index: "i64", memory: "(memory 3) (memory $m i64 1 2)", bytes: 65536, page: 65536 },
];

impl Kind {
    /// A constant index. Hexadecimal numbers of all index bits are what text wants of the upper half.
    pub(super) fn at(&self, index: u64) -> String {
        if self.index == "i32" {
            let index = u32::try_from(index).expect("an index of 32 bits");
            format!("(i32.const {index:#x})")
        } else {
            format!("(i64.const {index:#x})")
        }
    }

    /// An index so far below 0, which is one so far below the largest.
    pub(super) fn below_zero(&self, by: u64) -> u64 {
        if self.index == "i32" { (1 << 32) - by } else { by.wrapping_neg() }
    }
}

/// A load, a store or an atomic access.
pub(super) struct Access {
    pub(super) name: String,
    /// Bytes in memory.
    pub(super) width: u64,
    /// What it takes behind the index, as text.
    operands: String,
    /// What it leaves: nothing if it only stores.
    pub(super) result: Option<&'static str>,
    pub(super) atomic: bool,
    lane: bool,
}

impl Access {
    /// The instruction, with a static offset.
    pub(super) fn text(&self, offset: u64, index: &str) -> String {
        let Self { name, operands, .. } = self;
        let lane = if self.lane { " 1" } else { "" };
        format!("({name} $m offset={offset:#x}{lane} {index} {operands})")
    }

    /// What it leaves where memory is zero: an empty text for nothing.
    pub(super) fn zero(&self) -> String {
        match self.result {
            None => String::new(),
            Some("v128") => String::from("(v128.const i64x2 0 0)"),
            Some(ty) => format!("({ty}.const 0)"),
        }
    }

    /// The result's declaration.
    pub(super) fn result(&self) -> String {
        self.result.map_or_else(String::new, |ty| format!("(result {ty})"))
    }
}

/// Plain scalar loads and stores.
const SCALARS: &[(&str, u64)] = &[
    ("i32.load", 4),
    ("i32.load8_s", 1),
    ("i32.load8_u", 1),
    ("i32.load16_s", 2),
    ("i32.load16_u", 2),
    ("i64.load", 8),
    ("i64.load8_s", 1),
    ("i64.load8_u", 1),
    ("i64.load16_s", 2),
    ("i64.load16_u", 2),
    ("i64.load32_s", 4),
    ("i64.load32_u", 4),
    ("f32.load", 4),
    ("f64.load", 8),
    ("i32.store", 4),
    ("i32.store8", 1),
    ("i32.store16", 2),
    ("i64.store", 8),
    ("i64.store8", 1),
    ("i64.store16", 2),
    ("i64.store32", 4),
    ("f32.store", 4),
    ("f64.store", 8),
];

/// Vector loads and stores of no lane.
const VECTORS: &[(&str, u64)] = &[
    ("v128.load", 16),
    ("v128.load8x8_s", 8),
    ("v128.load8x8_u", 8),
    ("v128.load16x4_s", 8),
    ("v128.load16x4_u", 8),
    ("v128.load32x2_s", 8),
    ("v128.load32x2_u", 8),
    ("v128.load8_splat", 1),
    ("v128.load16_splat", 2),
    ("v128.load32_splat", 4),
    ("v128.load64_splat", 8),
    ("v128.load32_zero", 4),
    ("v128.load64_zero", 8),
    ("v128.store", 16),
];

/// Types and widths, in bits, of atomic accesses.
pub(super) const ATOMICS: &[(&str, u64)] =
    &[("i32", 32), ("i32", 8), ("i32", 16), ("i64", 64), ("i64", 8), ("i64", 16), ("i64", 32)];

/// The name of an atomic operator: the full width is not written, a narrow result is unsigned.
pub(super) fn atomic(ty: &str, bits: u64, operator: &str) -> String {
    let full = ty[1..] == bits.to_string();
    let width = if full { String::new() } else { bits.to_string() };
    match operator {
        "load" if full => format!("{ty}.atomic.load"),
        "load" => format!("{ty}.atomic.load{width}_u"),
        "store" => format!("{ty}.atomic.store{width}"),
        _ if full => format!("{ty}.atomic.rmw.{operator}"),
        _ => format!("{ty}.atomic.rmw{width}.{operator}_u"),
    }
}

/// Every access. Where memory is zero each leaves zero; what stores stores ones.
pub(super) fn accesses() -> Vec<Access> {
    let mut all = Vec::new();
    for (name, width) in SCALARS.iter().chain(VECTORS) {
        let ty = &name[..name.find('.').expect("a type and an operator")];
        let ty: &'static str = ["i32", "i64", "f32", "f64", "v128"].into_iter().find(|t| *t == ty).expect("a type");
        let ones = match ty {
            "f32" => "(f32.const nan:0x7fffff)",
            "f64" => "(f64.const nan:0xfffffffffffff)",
            "v128" => "(v128.const i64x2 -1 -1)",
            "i32" => "(i32.const -1)",
            _ => "(i64.const -1)",
        };
        let store = name.contains("store");
        all.push(Access {
            name: (*name).to_owned(),
            width: *width,
            operands: if store { ones.to_owned() } else { String::new() },
            result: (!store).then_some(ty),
            atomic: false,
            lane: false,
        });
    }
    for bits in [8, 16, 32, 64] {
        for (operator, vector, result) in
            [("load", "(v128.const i64x2 0 0)", Some("v128")), ("store", "(v128.const i64x2 -1 -1)", None)]
        {
            all.push(Access {
                name: format!("v128.{operator}{bits}_lane"),
                width: bits / 8,
                operands: vector.to_owned(),
                result,
                atomic: false,
                lane: true,
            });
        }
    }
    for (ty, bits) in ATOMICS {
        for operator in ["load", "store", "add", "sub", "and", "or", "xor", "xchg", "cmpxchg"] {
            let one = format!("({ty}.const -1)");
            let operands = match operator {
                "load" => String::new(),
                "cmpxchg" => format!("({ty}.const 0) {one}"),
                _ => one,
            };
            all.push(Access {
                name: atomic(ty, *bits, operator),
                width: bits / 8,
                operands,
                result: (operator != "store").then_some(*ty),
                atomic: true,
                lane: false,
            });
        }
    }
    all
}
