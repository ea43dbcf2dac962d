//! The state of one function's translation.

use cranelift_codegen::ir::Value;
use cranelift_frontend::FunctionBuilder;
use spinwise_model::context::Layout;
use spinwise_model::module::Module;

/// The function being lifted: where it has got to, and what it may look up.
pub(crate) struct FuncCx<'a, 'b> {
    /// The CLIF being built.
    pub(crate) b: FunctionBuilder<'b>,
    /// The module's tables.
    pub(crate) module: &'a Module,
    /// Where things lie in the instance context.
    pub(crate) layout: &'a Layout,
    /// The instance context.
    pub(crate) vmctx: Value,
    /// The operand stack; see [`crate::stack`].
    pub(crate) stack: Vec<Value>,
}
