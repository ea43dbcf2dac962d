//! Vectors as numbers: bit 0 of the `u128` is bit 0 of lane 0, as in wasm's little-endian memory.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "to take some bits of a word is the purpose here"
)]

/// What a lane holds: it decides which operands are worth trying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Kind {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Values at which something changes: signs, widths, roundings, ranges, kinds of float.
    pub(crate) fn edges(self) -> Vec<u128> {
        match self {
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => {
                let bits = 8 * self.bytes() as u32;
                let mask = u128::MAX >> (128 - bits);
                let small = [
                    0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff,
                ];
                let high = 1 << (bits - 1);
                let wide = [high, high - 1, high + 1, mask, mask - 1, 0x5555 * (mask / 0xffff).max(1), high >> 1];
                let mut edges: Vec<u128> = small.into_iter().chain(wide).map(|x| x & mask).collect();
                edges.sort_unstable();
                edges.dedup();
                edges
            }
            Self::F32 => {
                let numbers = [
                    0.0,
                    1.0,
                    0.5,
                    1.5,
                    2.5,
                    0.499_999_97,
                    3.75,
                    1e-40,
                    f32::MIN_POSITIVE,
                    f32::MAX,
                    f32::INFINITY,
                    8_388_607.5,
                    16_777_217.0,
                    2_147_483_520.0,
                    2_147_483_648.0,
                    4_294_967_040.0,
                    4_294_967_296.0,
                    1e20,
                ];
                let nans = [0x7fc0_0000, 0x7fc0_1234, 0x7f80_0001, 0x7fa0_0000];
                with_both_signs(numbers.into_iter().map(f32::to_bits).chain(nans).map(u128::from), 31)
            }
            Self::F64 => {
                let numbers = [
                    0.0,
                    1.0,
                    0.5,
                    1.5,
                    2.5,
                    0.499_999_999_999_999_94,
                    3.75,
                    5e-324,
                    f64::MIN_POSITIVE,
                    f64::MAX,
                    f64::INFINITY,
                    2_147_483_647.0,
                    2_147_483_647.5,
                    2_147_483_648.0,
                    2_147_483_649.0,
                    4_294_967_295.0,
                    4_294_967_295.5,
                    4_294_967_296.0,
                    9.3e18,
                    1.9e19,
                    4_503_599_627_370_495.5,
                    3.402_823_5e38,
                    3.402_823_6e38,
                    1e-46,
                ];
                let nans = [0x7ff8 << 48, 0x7ff8_0000_0000_1234, 0x7ff0_0000_0000_0001, 0x7ff4 << 48];
                with_both_signs(numbers.into_iter().map(f64::to_bits).chain(nans).map(u128::from), 63)
            }
        }
    }

    /// Whether the bits are a NaN; never for an integer.
    pub(crate) const fn is_nan(self, bits: u128) -> bool {
        match self {
            Self::F32 => f32::from_bits(bits as u32).is_nan(),
            Self::F64 => f64::from_bits(bits as u64).is_nan(),
            _ => false,
        }
    }

    /// Whether a NaN is quiet.
    pub(crate) const fn is_quiet(self, bits: u128) -> bool {
        match self {
            Self::F32 => bits & 0x0040_0000 != 0,
            _ => bits & 0x0008_0000_0000_0000 != 0,
        }
    }

    /// Whether a NaN has the one canonical payload, of either sign.
    pub(crate) const fn is_canonical(self, bits: u128) -> bool {
        match self {
            Self::F32 => bits & 0x7fff_ffff == 0x7fc0_0000,
            _ => bits & (u64::MAX >> 1) as u128 == 0x7ff8 << 48,
        }
    }
}

fn with_both_signs(bits: impl Iterator<Item = u128>, sign: u32) -> Vec<u128> {
    bits.flat_map(|bits| [bits, bits | 1 << sign]).collect()
}

/// A Rust type for a lane.
pub(crate) trait Lane: Copy + 'static {
    const KIND: Kind;
    fn from_bits(bits: u128) -> Self;
    fn bits(self) -> u128;
}

macro_rules! integer_lanes {
    ($($signed:ident $unsigned:ident $kind:ident,)*) => { $(
        impl Lane for $signed {
            const KIND: Kind = Kind::$kind;
            fn from_bits(bits: u128) -> Self { bits as Self }
            fn bits(self) -> u128 { self as $unsigned as u128 }
        }
        impl Lane for $unsigned {
            const KIND: Kind = Kind::$kind;
            fn from_bits(bits: u128) -> Self { bits as Self }
            fn bits(self) -> u128 { self as u128 }
        }
    )* };
}

integer_lanes! {
    i8 u8 I8,
    i16 u16 I16,
    i32 u32 I32,
    i64 u64 I64,
}

impl Lane for f32 {
    const KIND: Kind = Kind::F32;
    fn from_bits(bits: u128) -> Self {
        Self::from_bits(bits as u32)
    }
    fn bits(self) -> u128 {
        self.to_bits().into()
    }
}

impl Lane for f64 {
    const KIND: Kind = Kind::F64;
    fn from_bits(bits: u128) -> Self {
        Self::from_bits(bits as u64)
    }
    fn bits(self) -> u128 {
        self.to_bits().into()
    }
}

/// The lanes of a vector, lane 0 first.
pub(crate) fn lanes<T: Lane>(vector: u128) -> Vec<T> {
    raw_lanes(T::KIND, vector).map(T::from_bits).collect()
}

/// The lanes of a vector as bits, lane 0 first; bits above the lane's width are not cleared.
pub(crate) fn raw_lanes(kind: Kind, vector: u128) -> impl Iterator<Item = u128> {
    let bytes = kind.bytes();
    (0..16 / bytes).map(move |lane| vector >> (8 * bytes * lane))
}

/// A vector of lanes, lane 0 first; those that are missing are zero.
pub(crate) fn pack<T: Lane>(lanes: impl IntoIterator<Item = T>) -> u128 {
    pack_raw(T::KIND, lanes.into_iter().map(T::bits))
}

/// A vector of lanes given as bits.
pub(crate) fn pack_raw(kind: Kind, lanes: impl IntoIterator<Item = u128>) -> u128 {
    let width = 8 * kind.bytes();
    lanes.into_iter().enumerate().fold(0, |vector, (at, lane)| vector | lane << (width * at))
}
