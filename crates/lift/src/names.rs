//! The name section. It is optional and proves nothing: what cannot be read of it is left out.

use std::collections::BTreeMap;

use wasmparser::{Name, NameSectionReader};

/// What the name section names.
#[derive(Default)]
pub(crate) struct Names {
    /// The module.
    pub(crate) module: Option<String>,
    /// Functions, by index.
    pub(crate) functions: BTreeMap<u32, String>,
}

impl Names {
    /// Reads as much as can be read.
    pub(crate) fn read(section: NameSectionReader<'_>) -> Self {
        let mut names = Self::default();
        for name in section.into_iter().map_while(Result::ok) {
            match name {
                Name::Module { name, .. } => names.module = Some(name.to_owned()),
                Name::Function(functions) => {
                    let functions = functions.into_iter().map_while(Result::ok);
                    names.functions.extend(functions.map(|naming| (naming.index, naming.name.to_owned())));
                }
                _ => {}
            }
        }
        names
    }
}
