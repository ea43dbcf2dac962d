//! What in-memory code and objects have in common: compiled functions become functions of a Cranelift module, and
//! each place that needs an address learns whose.
//!
//! Invariant: nothing stays undefined but [`Builtin`]s. A reference to anything else is an error here, before a linker
//! could bind it to whatever has that name.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::{LibCall, Signature, UserExternalName};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_module::{FuncId, Linkage, Module, ModuleError, ModuleReloc, ModuleRelocTarget};
use spinwise_model::symbol::{Builtin, NS_BUILTIN};

use crate::compile::{Callee, Compiled, Relocation};
use crate::error::Error;
use crate::shuffle;

/// Whose address a relocation needs.
enum Referent {
    Function(UserExternalName),
    Builtin(Builtin),
    Within(u32),
}

/// Adds the helpers that the code calls and that no builtin provides.
pub(crate) fn with_helpers(isa: &dyn TargetIsa, mut compiled: Vec<Compiled>) -> Result<Vec<Compiled>, Error> {
    let shuffles = |reloc: &Relocation| reloc.callee == Callee::Helper(LibCall::X86Pshufb);
    if compiled.iter().any(|function| function.relocations.iter().any(shuffles)) {
        compiled.push(shuffle::compile(isa)?);
    }
    Ok(compiled)
}

/// The builtins that the code refers to.
pub(crate) fn builtins(compiled: &[Compiled]) -> Result<BTreeSet<Builtin>, Error> {
    let mut found = BTreeSet::new();
    for function in compiled {
        for reloc in &function.relocations {
            if let Referent::Builtin(builtin) = referent(function, reloc)? {
                found.insert(builtin);
            }
        }
    }
    Ok(found)
}

/// The functions of one artefact, declared to Cranelift.
pub(crate) struct Linker {
    functions: BTreeMap<(u32, u32), FuncId>,
    builtins: BTreeMap<Builtin, FuncId>,
}

impl Linker {
    /// Declares all compiled functions, and the builtins they refer to. Functions are anonymous: guest names may be
    /// anything, twice.
    pub(crate) fn declare(module: &mut dyn Module, compiled: &[Compiled]) -> Result<Self, Error> {
        // Cranelift's modules check signatures only among themselves; code and relocations are all they need.
        let signature = Signature::new(CallConv::Fast);
        let mut functions = BTreeMap::new();
        for function in compiled {
            let id = module.declare_anonymous_function(&signature).map_err(|error| bug(&function.symbol, &error))?;
            if functions.insert(key(&function.name), id).is_some() {
                return Err(Error::Link {
                    function: function.symbol.clone(),
                    reason: format!("{} is defined twice, always a bug", function.name),
                });
            }
        }
        let builtins = builtins(compiled)?
            .into_iter()
            .map(|builtin| {
                let id = module.declare_function(builtin.symbol(), Linkage::Import, &signature);
                Ok((builtin, id.map_err(|error| bug(builtin.symbol(), &error))?))
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { functions, builtins })
    }

    /// Defines a declared function: gives its code and relocations to `module`.
    pub(crate) fn define(&self, module: &mut dyn Module, function: &Compiled) -> Result<FuncId, Error> {
        let id = self.functions[&key(&function.name)];
        let relocations = function
            .relocations
            .iter()
            .map(|reloc| {
                let target = match referent(function, reloc)? {
                    Referent::Within(offset) => ModuleRelocTarget::FunctionOffset(id, offset),
                    Referent::Builtin(builtin) => self.builtins[&builtin].into(),
                    Referent::Function(name) => match self.functions.get(&key(&name)) {
                        Some(id) => (*id).into(),
                        None => {
                            return Err(Error::Link {
                                function: function.symbol.clone(),
                                reason: format!("calls {name}, which is not compiled, always a bug"),
                            });
                        }
                    },
                };
                Ok(ModuleReloc { offset: reloc.offset, kind: reloc.kind, name: target, addend: reloc.addend })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        module
            .define_function_bytes(id, function.alignment.into(), &function.code, &relocations)
            .map_err(|error| bug(&function.symbol, &error))?;
        Ok(id)
    }
}

/// What a relocation means.
fn referent(function: &Compiled, reloc: &Relocation) -> Result<Referent, Error> {
    let missing = |what: String| Error::Link {
        function: function.symbol.clone(),
        reason: format!("refers to {what}, which nothing provides, always a bug"),
    };
    match &reloc.callee {
        Callee::Within(offset) => Ok(Referent::Within(*offset)),
        Callee::Function(UserExternalName { namespace: NS_BUILTIN, index }) => {
            Builtin::from_index(*index).map(Referent::Builtin).ok_or_else(|| missing(format!("builtin {index}")))
        }
        Callee::Function(name) => Ok(Referent::Function(name.clone())),
        Callee::Helper(LibCall::X86Pshufb) => Ok(Referent::Function(shuffle::NAME)),
        Callee::Helper(helper) => {
            helper_builtin(*helper).map(Referent::Builtin).ok_or_else(|| missing(format!("the helper {helper}")))
        }
    }
}

/// The builtin that stands in for a missing instruction.
fn helper_builtin(helper: LibCall) -> Option<Builtin> {
    Some(match helper {
        LibCall::CeilF32 => Builtin::CeilF32,
        LibCall::CeilF64 => Builtin::CeilF64,
        LibCall::FloorF32 => Builtin::FloorF32,
        LibCall::FloorF64 => Builtin::FloorF64,
        LibCall::TruncF32 => Builtin::TruncF32,
        LibCall::TruncF64 => Builtin::TruncF64,
        LibCall::NearestF32 => Builtin::NearestF32,
        LibCall::NearestF64 => Builtin::NearestF64,
        LibCall::FmaF32 => Builtin::FmaF32,
        LibCall::FmaF64 => Builtin::FmaF64,
        // Probes are inline, guest code has no thread-local data and passes no structures by value.
        _ => return None,
    })
}

fn key(name: &UserExternalName) -> (u32, u32) {
    (name.namespace, name.index)
}

/// A refusal of Cranelift's linker that says more about this crate than about its input.
fn bug(function: &str, error: &ModuleError) -> Error {
    let reason = match error {
        ModuleError::Allocation { err } => return Error::Memory(err.to_string()),
        other => other.to_string(),
    };
    Error::Link { function: function.to_owned(), reason }
}
