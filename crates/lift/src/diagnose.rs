//! From a rejection to an [`Error`] that helps: which feature is missing, whether the file is damaged, which function.
//!
//! Cost: the module is read again, a few times over. Only rejected modules pay.

use wasmparser::{
    ExternalKind, FuncValidatorAllocations, KnownCustom, OperatorsReader, Parser, Payload, Result, ValidPayload,
    Validator, WasmFeatures,
};

use crate::error::Error;
use crate::features::{Features, PROPOSALS, Proposal};
use crate::func::{Failure, MAX_OPERANDS};
use crate::names::Names;

/// What the rejection of a module means.
pub(crate) fn diagnose(bytes: &[u8], features: Features, failure: Failure) -> Error {
    match failure {
        Failure::Wasm(error) => rejected(bytes, features.flags(), &error),
        Failure::Operands { offset } => Error::Limit {
            limit: "branches and calls carry over 16 million operands in one function".to_owned(),
            function: function_at(bytes, offset),
            offset,
        },
        Failure::Operator { name, offset } => {
            Error::Unsupported { feature: format!("operator {name}"), function: function_at(bytes, offset), offset }
        }
    }
}

fn rejected(bytes: &[u8], features: WasmFeatures, error: &wasmparser::Error) -> Error {
    let offset = error.offset();
    if !bytes.starts_with(b"\0asm") {
        let message = if bytes.is_empty() { "the file is empty" } else { "not a WebAssembly binary" };
        return Error::Malformed { message: message.to_owned(), function: None, offset: 0 };
    }
    if Parser::is_component(bytes) {
        return Error::Unsupported { feature: "component model".to_owned(), function: None, offset: 0 };
    }
    // Damage may look like a feature or like a broken rule: it is looked for first, and with all encodings known.
    let all = PROPOSALS.iter().fold(features, |all, proposal| all | proposal.flags);
    if let Err(damage) = read_all(bytes, all) {
        return malformed(bytes, &damage);
    }
    let function = function_at(bytes, offset);
    if let Some(missing) = missing_feature(bytes, error, features, all) {
        let feature = missing.title.to_owned();
        return if missing.supported {
            Error::SwitchedOff { feature, name: missing.name, function, offset }
        } else {
            Error::Unsupported { feature, function, offset }
        };
    }
    if let Err(damage) = read_all(bytes, features) {
        return malformed(bytes, &damage);
    }
    Error::Invalid { message: line(error), function, offset }
}

fn malformed(bytes: &[u8], error: &wasmparser::Error) -> Error {
    let offset = error.offset();
    Error::Malformed { message: line(error), function: function_at(bytes, offset), offset }
}

/// The message in one line, without padding.
fn line(error: &wasmparser::Error) -> String {
    error.message().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The proposal that the module needs at the place where it was rejected.
fn missing_feature(
    bytes: &[u8],
    error: &wasmparser::Error,
    features: WasmFeatures,
    all: WasmFeatures,
) -> Option<&'static Proposal> {
    let mut missing = PROPOSALS.iter().filter(|proposal| !features.contains(proposal.flags));
    if let Some(wanted) = error.missing_wasm_feature() {
        return missing.find(|proposal| proposal.flags.intersects(wanted));
    }
    if !is_valid(bytes, all) {
        return None;
    }
    // It needs this one alone, or this one among several.
    let alone = missing.clone().find(|proposal| is_valid(bytes, features | proposal.flags));
    alone.or_else(|| missing.find(|proposal| !is_valid(bytes, all - proposal.flags)))
}

fn is_valid(bytes: &[u8], features: WasmFeatures) -> bool {
    validate(bytes, features).is_ok_and(|within_limits| within_limits)
}

/// Validates with other features. `false`: a body exceeds the limit on operands, and was given up.
fn validate(bytes: &[u8], features: WasmFeatures) -> Result<bool> {
    let mut validator = Validator::new_with_features(features);
    for payload in reader(features).parse_all(bytes) {
        let ValidPayload::Func(body, code) = validator.payload(&payload?)? else { continue };
        let mut body = body.into_validator(FuncValidatorAllocations::default());
        let mut locals = code.get_binary_reader();
        body.read_locals(&mut locals)?;
        let mut operators = OperatorsReader::new(locals);
        while !operators.eof() {
            let (op, offset) = operators.read_with_offset()?;
            body.op(offset, &op)?;
            if body.operand_stack_height() as usize > MAX_OPERANDS {
                return Ok(false);
            }
        }
        operators.finish()?;
    }
    Ok(true)
}

fn reader(features: WasmFeatures) -> Parser {
    let mut parser = Parser::new(0);
    parser.set_features(features);
    parser
}

/// Reads everything and validates nothing: whether the module is well-formed.
fn read_all(bytes: &[u8], features: WasmFeatures) -> Result<()> {
    fn each<T>(items: impl IntoIterator<Item = Result<T>>) -> Result<()> {
        items.into_iter().try_for_each(|item| item.map(drop))
    }
    for payload in reader(features).parse_all(bytes) {
        match payload? {
            Payload::TypeSection(section) => each(section)?,
            Payload::ImportSection(section) => each(section)?,
            Payload::FunctionSection(section) => each(section)?,
            Payload::TableSection(section) => each(section)?,
            Payload::MemorySection(section) => each(section)?,
            Payload::TagSection(section) => each(section)?,
            Payload::GlobalSection(section) => each(section)?,
            Payload::ExportSection(section) => each(section)?,
            Payload::ElementSection(section) => each(section)?,
            Payload::DataSection(section) => each(section)?,
            Payload::CodeSectionEntry(body) => {
                each(body.get_locals_reader()?)?;
                each(body.get_operators_reader()?)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The name of the function whose body holds an offset, as far as the module can be read.
fn function_at(bytes: &[u8], offset: u64) -> Option<String> {
    let mut imported = 0;
    let mut bodies = 0;
    let mut found = None;
    let mut names = Names::default();
    let mut exports = Vec::new();
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        match payload {
            Payload::ImportSection(section) => {
                let imports = section.into_imports().map_while(Result::ok);
                imported = imports.filter(|import| matches!(import.ty, wasmparser::TypeRef::Func(_))).count();
            }
            Payload::ExportSection(section) => exports = section.into_iter().map_while(Result::ok).collect(),
            Payload::CodeSectionEntry(body) => {
                // The end belongs to the body: that is where an operator is missed.
                if (body.range().start..=body.range().end).contains(&offset) && found.is_none() {
                    found = Some(imported + bodies);
                }
                bodies += 1;
            }
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(section) = section.as_known() {
                    names = Names::read(section);
                }
            }
            _ => {}
        }
    }
    let index = found?;
    let index = u32::try_from(index).ok()?;
    if let Some(name) = names.functions.remove(&index) {
        return Some(name);
    }
    let export = exports.iter().find(|export| export.kind == ExternalKind::Func && export.index == index);
    Some(export.map_or_else(|| format!("func[{index}]"), |export| export.name.to_owned()))
}
