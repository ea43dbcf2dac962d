//! A case: a function body in text, the operands it takes, and what it must do, in plain Rust.

use crate::lanes::{Kind, Lane, lanes, pack, pack_raw, raw_lanes};

/// What a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Param {
    /// A `v128` of such lanes.
    Vector(Kind),
    /// A scalar; an 8-bit or 16-bit lane travels as an `i32` of any value.
    Scalar(Kind),
    /// An `i32` that is an address inside [`WINDOW`] with room for a vector and an offset.
    Address,
}

/// Bytes of memory that cases see.
pub(crate) const WINDOW: usize = 256;

/// A WebAssembly type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ty {
    I32,
    I64,
    F32,
    F64,
    V128,
}

impl Ty {
    pub(crate) const fn of(kind: Kind) -> Self {
        match kind {
            Kind::I8 | Kind::I16 | Kind::I32 => Self::I32,
            Kind::I64 => Self::I64,
            Kind::F32 => Self::F32,
            Kind::F64 => Self::F64,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::V128 => "v128",
        }
    }
}

impl Param {
    pub(crate) const fn ty(self) -> Ty {
        match self {
            Self::Vector(_) => Ty::V128,
            Self::Scalar(kind) => Ty::of(kind),
            Self::Address => Ty::I32,
        }
    }
}

/// The expected effect: parameters and memory before, memory after, and the result (0 if there is none).
type Reference = Box<dyn Fn(&[u128], &mut [u8]) -> u128>;

/// One function to lift, run and compare.
pub(crate) struct Case {
    /// What to call it where it fails.
    pub(crate) name: String,
    /// Its body; parameters are locals 0, 1, 2.
    pub(crate) body: String,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Option<Ty>,
    /// Lanes of the result in which any quiet NaN stands for another.
    pub(crate) nans: Option<Kind>,
    pub(crate) reference: Reference,
}

impl Case {
    /// Takes operands of other lanes than the reference computes on.
    pub(crate) fn on(&mut self, kind: Kind) {
        for param in &mut self.params {
            if let Param::Vector(of) = param {
                *of = kind;
            }
        }
    }

    /// The function in text.
    pub(crate) fn text(&self) -> String {
        let params: Vec<&str> = self.params.iter().map(|param| param.ty().name()).collect();
        let result = self.result.map_or(String::new(), |ty| format!("(result {})", ty.name()));
        format!("(func (param {}) {result} {})", params.join(" "), self.body)
    }

    /// Whether a result is one that the specification allows (4.3.4: any NaN result is quiet, and canonical if all NaN
    /// operands are).
    pub(crate) fn allows(&self, args: &[u128], expected: u128, actual: u128) -> bool {
        let Some(kind) = self.nans else { return expected == actual };
        let canonical = self.params.iter().zip(args).all(|(param, arg)| {
            let (Param::Vector(of) | Param::Scalar(of)) = *param else { return true };
            raw_lanes(of, *arg).all(|lane| !of.is_nan(lane) || of.is_canonical(lane))
        });
        let blank = |vector: u128| {
            pack_raw(kind, raw_lanes(kind, vector).map(|lane| if kind.is_nan(lane) { 0 } else { lane & low(kind) }))
        };
        blank(expected) == blank(actual)
            && raw_lanes(kind, expected).zip(raw_lanes(kind, actual)).all(|(expected, actual)| {
                kind.is_nan(expected) == kind.is_nan(actual)
                    && (!kind.is_nan(actual) || kind.is_quiet(actual))
                    && (!kind.is_nan(actual) || !canonical || kind.is_canonical(actual))
            })
    }
}

fn low(kind: Kind) -> u128 {
    u128::MAX >> (128 - 8 * kind.bytes())
}

/// An operator applied to locals 0, 1, … in order.
pub(crate) fn apply(operator: &str, arity: usize) -> String {
    let operands: Vec<String> = (0..arity).map(|at| format!("(local.get {at})")).collect();
    format!("({operator} {})", operands.join(" "))
}

/// The table of cases, filled family by family.
#[derive(Default)]
pub(crate) struct Table(pub(crate) Vec<Case>);

impl Table {
    /// A case from a body and a reference over its parameters.
    pub(crate) fn body(
        &mut self,
        body: &str,
        params: &[Param],
        result: Ty,
        reference: impl Fn(&[u128]) -> u128 + 'static,
    ) -> &mut Case {
        self.0.push(Case {
            name: body.to_owned(),
            body: body.to_owned(),
            params: params.to_vec(),
            result: Some(result),
            nans: None,
            reference: Box::new(move |args, _| reference(args)),
        });
        self.0.last_mut().expect("one was pushed")
    }

    /// A case of one operator.
    pub(crate) fn operator(
        &mut self,
        name: &str,
        params: &[Param],
        result: Ty,
        reference: impl Fn(&[u128]) -> u128 + 'static,
    ) -> &mut Case {
        self.body(&apply(name, params.len()), params, result, reference)
    }

    /// Lane by lane from one vector. Where the widths differ, from the low lanes of the wider count, or into them.
    pub(crate) fn map1<T: Lane, R: Lane>(&mut self, name: &str, f: impl Fn(T) -> R + 'static) -> &mut Case {
        self.map1_from(name, 0, f)
    }

    /// As [`Self::map1`], from the high lanes.
    pub(crate) fn map1_high<T: Lane, R: Lane>(&mut self, name: &str, f: impl Fn(T) -> R + 'static) -> &mut Case {
        self.map1_from(name, 8 / T::KIND.bytes(), f)
    }

    fn map1_from<T: Lane, R: Lane>(&mut self, name: &str, first: usize, f: impl Fn(T) -> R + 'static) -> &mut Case {
        let count = 16 / T::KIND.bytes().max(R::KIND.bytes());
        let case = self.operator(name, &[Param::Vector(T::KIND)], Ty::V128, move |args| {
            pack(lanes(args[0]).into_iter().skip(first).take(count).map(&f))
        });
        case.nans = float(R::KIND);
        case
    }

    /// Lane by lane from two vectors; as to widths see [`Self::map1`].
    pub(crate) fn map2<T: Lane, R: Lane>(&mut self, name: &str, f: impl Fn(T, T) -> R + 'static) -> &mut Case {
        self.map2_from(name, 0, f)
    }

    /// As [`Self::map2`], from the high lanes.
    pub(crate) fn map2_high<T: Lane, R: Lane>(&mut self, name: &str, f: impl Fn(T, T) -> R + 'static) -> &mut Case {
        self.map2_from(name, 8 / T::KIND.bytes(), f)
    }

    fn map2_from<T: Lane, R: Lane>(&mut self, name: &str, first: usize, f: impl Fn(T, T) -> R + 'static) -> &mut Case {
        let count = 16 / T::KIND.bytes().max(R::KIND.bytes());
        let case = self.operator(name, &[Param::Vector(T::KIND); 2], Ty::V128, move |args| {
            let pairs = lanes(args[0]).into_iter().zip(lanes(args[1]));
            pack(pairs.skip(first).take(count).map(|(x, y)| f(x, y)))
        });
        case.nans = float(R::KIND);
        case
    }

    /// From each two neighbouring lanes one of twice the width.
    pub(crate) fn pairs<T: Lane, R: Lane>(&mut self, name: &str, f: impl Fn(T, T) -> R + 'static) {
        self.operator(name, &[Param::Vector(T::KIND)], Ty::V128, move |args| {
            pack(lanes(args[0]).chunks_exact(2).map(|pair| f(pair[0], pair[1])))
        });
    }

    /// All lanes shifted by one `i32`.
    pub(crate) fn shift<T: Lane>(&mut self, name: &str, f: impl Fn(T, u32) -> T + 'static) {
        self.operator(name, &[Param::Vector(T::KIND), Param::Scalar(Kind::I32)], Ty::V128, move |args| {
            let count = u32::from_bits(args[1]);
            pack(lanes(args[0]).into_iter().map(|x| f(x, count)))
        });
    }

    /// A relation of lanes: all ones or zero.
    pub(crate) fn relation<T: Lane>(&mut self, name: &str, f: impl Fn(T, T) -> bool + 'static) {
        self.operator(name, &[Param::Vector(T::KIND); 2], Ty::V128, move |args| {
            let pairs = lanes(args[0]).into_iter().zip(lanes(args[1]));
            pack_raw(T::KIND, pairs.map(|(x, y)| if f(x, y) { low(T::KIND) } else { 0 }))
        });
    }

    /// An operator that touches memory.
    pub(crate) fn memory(
        &mut self,
        operator: &str,
        params: &[Param],
        result: Option<Ty>,
        reference: impl Fn(&[u128], &mut [u8]) -> u128 + 'static,
    ) {
        self.0.push(Case {
            name: operator.to_owned(),
            body: apply(operator, params.len()),
            params: params.to_vec(),
            result,
            nans: None,
            reference: Box::new(reference),
        });
    }
}

fn float(kind: Kind) -> Option<Kind> {
    matches!(kind, Kind::F32 | Kind::F64).then_some(kind)
}
