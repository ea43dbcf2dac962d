//! Values between host and guest, and the 16-byte slots that they travel in.
//!
//! A slot holds a value in its low bytes, in the machine's own byte order; what is above them is undefined.
#![expect(unsafe_code, reason = "slots are reached by address")]

use spinwise_model::context::SLOT_SIZE;
use spinwise_model::types::{HeapType, RefType, ValType};

use crate::any::AnyRef;
use crate::error::Error;
use crate::exception::Exception;
use crate::func::Func;
use crate::thread::Running;
use crate::types;

/// Host references are below this: two bits tell them from other references.
pub(crate) const MAX_TOKEN: u64 = 1 << 62;

/// A WebAssembly value.
#[derive(Clone, Debug)]
pub enum Val {
    /// 32-bit integer.
    I32(i32),
    /// 64-bit integer.
    I64(i64),
    /// 32-bit float, as bits.
    F32(u32),
    /// 64-bit float, as bits.
    F64(u64),
    /// 128-bit vector, lane 0 in the low bits.
    V128(u128),
    /// Reference to a function.
    FuncRef(Option<Func>),
    /// A host's own reference: any number below 2^62.
    ExternRef(Option<u64>),
    /// Reference to an exception.
    ExnRef(Option<Exception>),
    /// A reference of the `any` hierarchy.
    AnyRef(Option<AnyRef>),
    /// Such a one as a reference of the `extern` hierarchy (`extern.convert_any`), unless it is a host's own.
    Externalized(AnyRef),
}

impl Val {
    /// Its type: of a reference the closest one, with types of the process.
    #[must_use]
    pub fn ty(&self) -> ValType {
        let reference = |nullable, heap| ValType::Ref(RefType { nullable, heap });
        match self {
            Self::I32(_) => ValType::I32,
            Self::I64(_) => ValType::I64,
            Self::F32(_) => ValType::F32,
            Self::F64(_) => ValType::F64,
            Self::V128(_) => ValType::V128,
            Self::FuncRef(None) => reference(true, HeapType::NoFunc),
            Self::FuncRef(Some(func)) => reference(false, HeapType::Type(func.type_id())),
            Self::ExternRef(None) => reference(true, HeapType::NoExtern),
            Self::ExternRef(Some(_)) | Self::Externalized(_) => reference(false, HeapType::Extern),
            Self::ExnRef(None) => reference(true, HeapType::NoExn),
            Self::ExnRef(Some(_)) => reference(false, HeapType::Exn),
            Self::AnyRef(None) => reference(true, HeapType::None),
            Self::AnyRef(Some(any)) => ValType::Ref(any.ty()),
        }
    }

    /// The default value of a type: zero or null.
    #[must_use]
    pub fn zero(ty: ValType) -> Self {
        match ty {
            ValType::I32 => Self::I32(0),
            ValType::I64 => Self::I64(0),
            ValType::F32 => Self::F32(0),
            ValType::F64 => Self::F64(0),
            ValType::V128 => Self::V128(0),
            ValType::Ref(ty) => Self::null(ty.heap),
        }
    }

    /// Its representation in compiled code of the running thread's store, zero-extended.
    ///
    /// # Errors
    /// [`Error::Usage`] for a reference that compiled code cannot hold, or another store's.
    pub(crate) fn to_bits(&self, running: Running<'_>) -> Result<u128, Error> {
        match self {
            Self::FuncRef(Some(func)) => Ok(func.to_raw(running)?.into()),
            Self::ExnRef(Some(exception)) => Ok(exception.to_raw(running)?.into()),
            Self::AnyRef(Some(any)) | Self::Externalized(any) => Ok(any.to_raw(running)?.into()),
            _ => Ok(self.free_bits()?.unwrap_or_default()),
        }
    }

    /// Its representation in compiled code of any store, zero-extended; `None` for what belongs to one.
    ///
    /// # Errors
    /// [`Error::Usage`] for a reference that compiled code cannot hold.
    pub(crate) fn free_bits(&self) -> Result<Option<u128>, Error> {
        Ok(Some(match self {
            Self::I32(value) => value.cast_unsigned().into(),
            Self::I64(value) => value.cast_unsigned().into(),
            Self::F32(bits) => (*bits).into(),
            Self::F64(bits) => (*bits).into(),
            Self::V128(bits) => *bits,
            Self::FuncRef(None) | Self::ExternRef(None) | Self::ExnRef(None) | Self::AnyRef(None) => 0,
            Self::ExternRef(Some(token)) => return Ok(AnyRef::Host(*token).free_raw()?.map(u128::from)),
            Self::AnyRef(Some(any)) | Self::Externalized(any) => return Ok(any.free_raw()?.map(u128::from)),
            Self::FuncRef(Some(_)) | Self::ExnRef(Some(_)) => return Ok(None),
        }))
    }

    /// The value of that representation in the running thread's store; bits above the type's width do not matter.
    ///
    /// # Safety
    /// A reference's bits are of the running thread's store: null, of no store, or to what is alive.
    #[expect(clippy::cast_possible_truncation, reason = "the type says how many bits count")]
    pub(crate) unsafe fn from_bits(running: Running<'_>, ty: ValType, bits: u128) -> Self {
        match ty {
            ValType::I32 => Self::I32((bits as u32).cast_signed()),
            ValType::I64 => Self::I64((bits as u64).cast_signed()),
            ValType::F32 => Self::F32(bits as u32),
            ValType::F64 => Self::F64(bits as u64),
            ValType::V128 => Self::V128(bits),
            // SAFETY: the caller vouches for the reference.
            ValType::Ref(ty) => unsafe { Self::reference(running, ty.heap, bits as u64) },
        }
    }

    /// # Safety
    /// As for [`Val::from_bits`].
    unsafe fn reference(running: Running<'_>, heap: HeapType, bits: u64) -> Self {
        if bits == 0 {
            return Self::null(heap);
        }
        if is_func(heap) {
            // SAFETY: the caller vouches for the reference.
            return Self::FuncRef(unsafe { Func::from_raw(bits) });
        }
        if heap == HeapType::Exn {
            // SAFETY: the caller vouches for the reference.
            return Self::ExnRef(Some(unsafe { Exception::from_raw(running, bits) }));
        }
        // SAFETY: the caller vouches for the reference.
        let any = unsafe { AnyRef::from_raw(running, bits) };
        match (heap, any) {
            (HeapType::Extern, Some(AnyRef::Host(token))) => Self::ExternRef(Some(token)),
            (HeapType::Extern, Some(any)) => Self::Externalized(any),
            (_, any) => Self::AnyRef(any),
        }
    }

    fn null(heap: HeapType) -> Self {
        match heap {
            HeapType::Extern | HeapType::NoExtern => Self::ExternRef(None),
            HeapType::Exn | HeapType::NoExn => Self::ExnRef(None),
            heap if is_func(heap) => Self::FuncRef(None),
            _ => Self::AnyRef(None),
        }
    }
}

/// Whether what a heap type of the process admits is functions.
fn is_func(heap: HeapType) -> bool {
    match heap {
        HeapType::Func | HeapType::NoFunc => true,
        HeapType::Type(id) => types::is_func(id),
        _ => false,
    }
}

/// Whether values are as many as types, and each is of its type.
pub(crate) fn fit(values: &[Val], types: &[ValType]) -> bool {
    values.len() == types.len() && values.iter().zip(types).all(|(value, ty)| types::matches(value.ty(), *ty))
}

/// The address of consecutive slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots(*mut u8);

impl Slots {
    pub(crate) fn new(start: *mut u8) -> Self {
        Self(start)
    }

    fn at(self, index: usize) -> *mut u8 {
        self.0.wrapping_add(index * SLOT_SIZE.cast_unsigned() as usize)
    }

    /// # Safety
    /// The slot exists and holds a value of this type, of the running thread's store.
    pub(crate) unsafe fn get(self, running: Running<'_>, index: usize, ty: ValType) -> Val {
        let slot = self.at(index);
        let bits = match ty {
            // SAFETY: the caller vouches for the slot; it is aligned to 8.
            ValType::I32 | ValType::F32 => unsafe { slot.cast::<u32>().read() }.into(),
            // SAFETY: as above.
            ValType::V128 => unsafe { slot.cast::<u128>().read_unaligned() },
            // SAFETY: as above.
            ValType::I64 | ValType::F64 | ValType::Ref(_) => unsafe { slot.cast::<u64>().read().into() },
        };
        // SAFETY: references in slots come from compiled code, whose references are live.
        unsafe { Val::from_bits(running, ty, bits) }
    }

    /// # Safety
    /// The slot exists.
    pub(crate) unsafe fn set(self, index: usize, bits: u128) {
        // SAFETY: the caller vouches for the slot.
        unsafe { self.at(index).cast::<u128>().write_unaligned(bits) };
    }
}

/// A Rust type that stands for a WebAssembly type in a typed host function.
pub trait WasmType: Copy + sealed::WasmType {
    /// The WebAssembly type.
    const TYPE: ValType;
}

mod sealed {
    /// Keeps the set closed.
    pub trait WasmType {}
}

macro_rules! wasm_types {
    ($($rust:ty => $wasm:ident;)*) => {$(
        impl sealed::WasmType for $rust {}
        impl WasmType for $rust {
            const TYPE: ValType = ValType::$wasm;
        }
    )*};
}
wasm_types! { i32 => I32; u32 => I32; i64 => I64; u64 => I64; f32 => F32; f64 => F64; u128 => V128; }

/// What a typed host function answers: nothing, one value or a tuple.
pub trait WasmResults: sealed_results::WasmResults {
    #[doc(hidden)]
    const TYPES: &'static [ValType];
}

pub(crate) mod sealed_results {
    use super::Slots;

    /// Writes results to slots.
    pub trait WasmResults {
        /// # Safety
        /// There are as many slots as results.
        #[expect(private_interfaces, reason = "sealed: nobody outside can name this")]
        unsafe fn write(self, slots: Slots);
    }
}

impl Slots {
    /// # Safety
    /// The slot exists and holds a value of this type.
    pub(crate) unsafe fn read<T: WasmType>(self, index: usize) -> T {
        // SAFETY: the caller vouches for the slot; 16-byte alignment suits every such type.
        unsafe { self.at(index).cast::<T>().read() }
    }

    /// # Safety
    /// The slot exists.
    pub(crate) unsafe fn write<T: WasmType>(self, index: usize, value: T) {
        // SAFETY: as in `read`.
        unsafe { self.at(index).cast::<T>().write(value) };
    }
}

#[expect(private_interfaces, reason = "sealed: nobody outside can name this")]
impl<T: WasmType> sealed_results::WasmResults for T {
    unsafe fn write(self, slots: Slots) {
        // SAFETY: the caller vouches for one slot.
        unsafe { slots.write(0, self) };
    }
}

impl<T: WasmType> WasmResults for T {
    const TYPES: &'static [ValType] = &[T::TYPE];
}

macro_rules! result_tuples {
    ($(($($name:ident $index:tt),*);)*) => {$(
        #[expect(private_interfaces, reason = "sealed: nobody outside can name this")]
        impl<$($name: WasmType),*> sealed_results::WasmResults for ($($name,)*) {
            unsafe fn write(self, _slots: Slots) {
                $(
                    // SAFETY: the caller vouches for as many slots as there are results.
                    unsafe { _slots.write($index, self.$index) };
                )*
            }
        }
        impl<$($name: WasmType),*> WasmResults for ($($name,)*) {
            const TYPES: &'static [ValType] = &[$($name::TYPE),*];
        }
    )*};
}
result_tuples! { (); (A 0); (A 0, B 1); (A 0, B 1, C 2); (A 0, B 1, C 2, D 3); }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Options, Process};
    use crate::store::{Context, Store};

    /// The type that a slot of such a value has.
    fn wide(value: &Val) -> ValType {
        let any = |heap| ValType::Ref(RefType { nullable: true, heap });
        match value {
            Val::FuncRef(_) => ValType::FUNCREF,
            Val::ExternRef(_) | Val::Externalized(_) => ValType::EXTERNREF,
            Val::ExnRef(_) => any(HeapType::Exn),
            Val::AnyRef(_) => any(HeapType::Any),
            number => number.ty(),
        }
    }

    #[test]
    fn bits_round_trip() {
        let values = [
            Val::I32(-1),
            Val::I64(i64::MIN),
            Val::F32(0x7fc0_0001),
            Val::F64(u64::MAX),
            Val::V128(1 << 127),
            Val::ExternRef(Some(0)),
            Val::ExternRef(None),
            Val::FuncRef(None),
            Val::ExnRef(None),
            Val::AnyRef(None),
            Val::AnyRef(Some(AnyRef::I31(-1))),
            Val::AnyRef(Some(AnyRef::I31((1 << 30) - 1))),
            Val::AnyRef(Some(AnyRef::Host(7))),
            Val::Externalized(AnyRef::I31(0)),
        ];
        let process = Process::new(&Options::default()).expect("a process");
        let mut store = Store::new(&process).expect("a store");
        for value in values {
            let bits = value.free_bits().expect("representable").expect("of no store");
            // SAFETY: no reference is to anything.
            let back = unsafe { Val::from_bits(store.running(), wide(&value), bits) };
            assert_eq!(format!("{back:?}"), format!("{value:?}"));
        }
        assert!(Val::ExternRef(Some(MAX_TOKEN - 1)).free_bits().is_ok());
        assert!(Val::ExternRef(Some(MAX_TOKEN)).free_bits().is_err());
    }
}
