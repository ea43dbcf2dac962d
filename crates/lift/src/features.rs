//! The proposals of WebAssembly: their names, which are supported, and sets of them.

use std::fmt;

use wasmparser::WasmFeatures;

/// A proposal.
pub(crate) struct Proposal {
    /// What it is called on a command line.
    pub(crate) name: &'static str,
    /// What it is called in messages.
    pub(crate) title: &'static str,
    pub(crate) flags: WasmFeatures,
    /// Flags of those it builds on.
    needs: WasmFeatures,
    pub(crate) supported: bool,
}

const fn supported(name: &'static str, title: &'static str, flags: WasmFeatures) -> Proposal {
    Proposal { name, title, flags, needs: WasmFeatures::empty(), supported: true }
}

const fn unsupported(name: &'static str, title: &'static str, flags: WasmFeatures) -> Proposal {
    Proposal { supported: false, ..supported(name, title, flags) }
}

impl Proposal {
    const fn needing(self, needs: WasmFeatures) -> Self {
        Self { needs, ..self }
    }
}

/// All proposals. What a proposal builds on comes before it.
pub(crate) const PROPOSALS: &[Proposal] = &[
    supported("mutable-global", "mutable imported and exported globals", WasmFeatures::MUTABLE_GLOBAL),
    supported("saturating-float-to-int", "saturating conversions", WasmFeatures::SATURATING_FLOAT_TO_INT),
    supported("sign-extension", "sign extension", WasmFeatures::SIGN_EXTENSION),
    supported("multi-value", "multiple values", WasmFeatures::MULTI_VALUE),
    supported("bulk-memory", "bulk memory operations", WasmFeatures::BULK_MEMORY),
    supported("reference-types", "reference types", WasmFeatures::REFERENCE_TYPES),
    supported("simd", "SIMD", WasmFeatures::SIMD),
    supported("threads", "threads", WasmFeatures::THREADS),
    supported("extended-const", "extended constant expressions", WasmFeatures::EXTENDED_CONST),
    supported("tail-call", "tail calls", WasmFeatures::TAIL_CALL),
    supported("exceptions", "exception handling", WasmFeatures::EXCEPTIONS),
    supported("legacy-exceptions", "legacy exception handling", WasmFeatures::LEGACY_EXCEPTIONS)
        .needing(WasmFeatures::EXCEPTIONS),
    supported("memory64", "memory64 (64-bit memories)", WasmFeatures::MEMORY64),
    supported("multi-memory", "multi-memory (more than one memory)", WasmFeatures::MULTI_MEMORY),
    supported("relaxed-simd", "relaxed SIMD", WasmFeatures::RELAXED_SIMD).needing(WasmFeatures::SIMD),
    supported("wide-arithmetic", "wide arithmetic", WasmFeatures::WIDE_ARITHMETIC),
    supported("custom-page-sizes", "custom page sizes", WasmFeatures::CUSTOM_PAGE_SIZES),
    supported("function-references", "typed function references", WasmFeatures::FUNCTION_REFERENCES)
        .needing(WasmFeatures::REFERENCE_TYPES),
    supported("gc", "garbage collection", WasmFeatures::GC)
        .needing(WasmFeatures::REFERENCE_TYPES.union(WasmFeatures::FUNCTION_REFERENCES)),
    unsupported("memory-control", "memory control", WasmFeatures::MEMORY_CONTROL),
    unsupported("acquire-release-atomics", "acquire-release atomics", WasmFeatures::ACQUIRE_RELEASE_ATOMICS),
    unsupported("compact-imports", "compact import sections", WasmFeatures::COMPACT_IMPORTS),
    unsupported("custom-descriptors", "custom descriptors", WasmFeatures::CUSTOM_DESCRIPTORS),
    unsupported("multibyte-array-access", "multibyte array access", WasmFeatures::MULTIBYTE_ARRAY_ACCESS),
    unsupported("stack-switching", "stack switching", WasmFeatures::STACK_SWITCHING),
    unsupported("shared-everything-threads", "shared-everything threads", WasmFeatures::SHARED_EVERYTHING_THREADS),
];

/// What every module may use: WebAssembly 1.0.
const BASE: WasmFeatures = WasmFeatures::FLOATS.union(WasmFeatures::GC_TYPES);

/// A set of proposals that modules may use. The default is all that are supported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Features(WasmFeatures);

impl Default for Features {
    fn default() -> Self {
        let supported = PROPOSALS.iter().filter(|proposal| proposal.supported);
        Self(supported.fold(BASE, |all, proposal| all | proposal.flags))
    }
}

impl Features {
    /// WebAssembly 1.0 alone.
    pub const NONE: Self = Self(BASE);

    /// The set that a list describes: comma-separated names, applied to the default set from left to right. `NAME` adds a
    /// proposal and what it builds on, `-NAME` removes it and what builds on it, `all` is the default set, `none` is
    /// WebAssembly 1.0, `wasm2` WebAssembly 2.0, `wasm3` WebAssembly 3.0.
    ///
    /// # Errors
    /// What is wrong with the list, and which names there are.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut features = Self::default();
        for item in list.split(',').map(str::trim) {
            features = match item {
                "all" => Self::default(),
                "none" => Self::NONE,
                "wasm2" => Self::NONE.with(WasmFeatures::WASM2),
                "wasm3" => Self::NONE.with(WasmFeatures::WASM3),
                _ => match item.strip_prefix('-') {
                    Some(name) => features.without(named(name)?.flags),
                    None => features.with(named(item)?.flags),
                },
            };
        }
        Ok(features)
    }

    /// The names of all supported proposals.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROPOSALS.iter().filter(|proposal| proposal.supported).map(|proposal| proposal.name)
    }

    /// Adds proposals, as far as they are supported, and those they build on.
    fn with(self, flags: WasmFeatures) -> Self {
        let wanted = PROPOSALS.iter().filter(|proposal| proposal.supported && flags.contains(proposal.flags));
        Self(wanted.fold(self.0, |all, proposal| all | proposal.flags | proposal.needs))
    }

    /// Removes proposals, and those that build on them.
    fn without(self, flags: WasmFeatures) -> Self {
        let building = PROPOSALS.iter().filter(|proposal| proposal.needs.intersects(flags));
        Self(building.fold(self.0 - flags, |all, proposal| all - proposal.flags))
    }

    pub(crate) const fn flags(self) -> WasmFeatures {
        self.0
    }
}

/// The supported proposal of that name.
fn named(name: &str) -> Result<&'static Proposal, String> {
    let found = PROPOSALS.iter().find(|proposal| proposal.name == name);
    match found {
        Some(proposal) if proposal.supported => Ok(proposal),
        Some(proposal) => Err(format!("{} is not supported", proposal.title)),
        None => {
            let names = Features::names().collect::<Vec<_>>().join(", ");
            Err(format!("no feature is called `{name}`; there are all, none, wasm2, wasm3, {names}"))
        }
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = PROPOSALS.iter().filter(|proposal| self.0.contains(proposal.flags));
        f.debug_set().entries(on.map(|proposal| proposal.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(list: &str, flags: WasmFeatures) -> bool {
        Features::parse(list).expect("a list of names").0.contains(flags)
    }

    #[test]
    fn lists_apply_from_left_to_right() {
        assert!(has("all", WasmFeatures::THREADS) && !has("none", WasmFeatures::THREADS));
        assert!(has("none,threads", WasmFeatures::THREADS) && !has("threads,none", WasmFeatures::THREADS));
        assert!(!has("-simd", WasmFeatures::SIMD) && has("-simd", WasmFeatures::THREADS));
        assert!(has("wasm2", WasmFeatures::SIMD) && !has("wasm2", WasmFeatures::THREADS));
        assert_eq!(Features::parse("-threads, threads"), Ok(Features::default()));
        assert!(!has("-simd", WasmFeatures::RELAXED_SIMD) && !has("-simd,simd", WasmFeatures::RELAXED_SIMD));
    }

    #[test]
    fn what_builds_on_a_proposal_comes_and_goes_with_it() {
        for proposal in PROPOSALS {
            let before = PROPOSALS.iter().take_while(|other| other.name != proposal.name);
            let known = before.fold(BASE, |all, other| all | other.flags);
            assert!(known.contains(proposal.needs), "{} builds on what follows it", proposal.name);
            if proposal.supported {
                assert!(has(&format!("none,{}", proposal.name), proposal.flags | proposal.needs));
                assert!(!has(&format!("-{}", proposal.name), proposal.flags));
            }
        }
        let gc = Features(BASE | WasmFeatures::GC | WasmFeatures::REFERENCE_TYPES);
        assert!(!gc.without(WasmFeatures::REFERENCE_TYPES).0.contains(WasmFeatures::GC));
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        let wrong = Features::parse("simb").expect_err("no such feature");
        assert!(wrong.contains("`simb`") && wrong.contains("threads"), "{wrong}");
        assert_eq!(Features::parse("stack-switching").expect_err("unsupported"), "stack switching is not supported");
        assert!(Features::parse("").is_err());
    }
}
