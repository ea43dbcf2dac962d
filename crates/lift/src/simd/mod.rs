//! 128-bit vectors.

use wasmparser::Operator;

use crate::func::FuncCx;

/// Lifts a vector operator; `false` if it is not one.
pub(crate) fn translate(_cx: &mut FuncCx<'_, '_>, _op: &Operator<'_>) -> bool {
    false
}
