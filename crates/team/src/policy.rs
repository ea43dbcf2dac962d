//! Who decides how waits spin: the caller, else the environment, else the default.
//!
//! | variable | value | |
//! |---|---|---|
//! | `SPINWISE_WAIT_POLICY` | `passive`, `active`, `hybrid` | park at once; spin long; learn how long (the default) |
//! | `SPINWISE_SPIN_NS` | a number | spin for exactly that many ns, unless `passive` |
//! | `SPINWISE_NO_TUNE` | `0`, `1` | `1`: measure nothing, learn nothing |
//!
//! An unknown value is an error that names the legal ones. An empty one counts as not set. Whatever is decided, threads
//! that outnumber their CPUs do not spin.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::roundtrip::round_trip;
use crate::spin::{ACTIVE, SpinBudget};

const POLICY: &str = "SPINWISE_WAIT_POLICY";
const SPIN_NS: &str = "SPINWISE_SPIN_NS";
const NO_TUNE: &str = "SPINWISE_NO_TUNE";

/// What a hybrid wait spins where nothing may be measured, in ns: a usual park and wake.
const UNTUNED: u64 = 10_000;

/// How waits spin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Not at all.
    Passive,
    /// For a long, fixed time ([`ACTIVE`]).
    Active,
    /// For as long as it pays ([`SpinBudget::adaptive`]).
    Hybrid,
}

impl Policy {
    /// Every policy, in the order that messages name them.
    pub const ALL: [Self; 3] = [Self::Passive, Self::Active, Self::Hybrid];

    /// Its name in flags and variables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passive => "passive",
            Self::Active => "active",
            Self::Hybrid => "hybrid",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// A name that is no policy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("unknown wait policy {0:?}: it is one of passive, active, hybrid")]
pub struct UnknownPolicy(String);

/// A variable that cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{variable} is {value:?}: it is {legal}")]
pub struct EnvironmentError {
    variable: &'static str,
    value: String,
    legal: &'static str,
}

/// What the caller decides; `None` leaves it to the environment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Overrides {
    /// How waits spin.
    pub policy: Option<Policy>,
    /// For how many ns exactly.
    pub spin_ns: Option<u64>,
    /// Whether to measure and to learn.
    pub tune: Option<bool>,
}

/// Who decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Caller,
    Environment,
    Default,
}

/// What was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    policy: Policy,
    decided_by: Source,
    spin_ns: Option<u64>,
    tune: bool,
}

impl Settings {
    /// Decides by the caller's overrides and this process's environment.
    ///
    /// # Errors
    /// Where a variable has no legal value, even if it is overridden: a typing error should not lie in wait.
    pub fn from_env(overrides: Overrides) -> Result<Self, EnvironmentError> {
        Self::resolve(overrides, |name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// Decides by the caller's overrides and the given environment.
    ///
    /// # Errors
    /// As [`Settings::from_env`].
    pub fn resolve(
        overrides: Overrides,
        environment: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Self, EnvironmentError> {
        let variable = |name| environment(name).filter(|value| !value.is_empty());
        let policy = parse(POLICY, variable(POLICY), "one of passive, active, hybrid", |text| text.parse().ok())?;
        let spin_ns = parse(SPIN_NS, variable(SPIN_NS), "a number of nanoseconds", |text| text.parse().ok())?;
        let no_tune = parse(NO_TUNE, variable(NO_TUNE), "0 or 1", |text| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })?;
        let (policy, decided_by) = match (overrides.policy, policy) {
            (Some(policy), _) => (policy, Source::Caller),
            (None, Some(policy)) => (policy, Source::Environment),
            (None, None) => (Policy::Hybrid, Source::Default),
        };
        Ok(Self {
            policy,
            decided_by,
            spin_ns: overrides.spin_ns.or(spin_ns),
            tune: overrides.tune.unwrap_or(no_tune != Some(true)),
        })
    }

    /// How waits spin.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether anything may be measured and learnt.
    #[must_use]
    pub const fn tune(&self) -> bool {
        self.tune
    }

    /// A fresh budget for one waiter. The first hybrid one measures what a park and a wake cost.
    #[must_use]
    pub fn budget(&self) -> SpinBudget {
        match (self.policy, self.spin_ns) {
            (Policy::Passive, _) => SpinBudget::passive(),
            (_, Some(ns)) => SpinBudget::fixed(ns),
            (Policy::Active, None) => SpinBudget::fixed(ACTIVE),
            (Policy::Hybrid, None) if !self.tune => SpinBudget::fixed(UNTUNED),
            (Policy::Hybrid, None) => SpinBudget::adaptive(round_trip()),
        }
    }

    /// One line that says policy, budget, team size and why; for the program to print, once, if anywhere.
    #[must_use]
    pub fn announcement(&self, threads: u32, cpus: u32) -> String {
        let source = match self.decided_by {
            Source::Caller => "as asked",
            Source::Environment => POLICY,
            Source::Default => "default",
        };
        let budget = match (self.policy, self.spin_ns) {
            (Policy::Passive, Some(_)) => "parks at once, spin time ignored".to_owned(),
            (Policy::Passive, None) => "parks at once".to_owned(),
            _ if threads > cpus => "no spinning: threads outnumber CPUs".to_owned(),
            (_, Some(ns)) => format!("spins {ns} ns, fixed"),
            (Policy::Active, None) => format!("spins {ACTIVE} ns"),
            (Policy::Hybrid, None) if !self.tune => format!("spins {UNTUNED} ns, tuning off"),
            (Policy::Hybrid, None) => format!("spins from {} ns, a measured park and wake, and adapts", round_trip()),
        };
        let plural = |n: u32, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
        let (threads, cpus) = (plural(threads, "thread"), plural(cpus, "CPU"));
        format!("spinwise: wait policy {} ({source}), {budget}; {threads} on {cpus}", self.policy)
    }
}

fn parse<T>(
    variable: &'static str,
    value: Option<String>,
    legal: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, EnvironmentError> {
    let Some(value) = value else { return Ok(None) };
    read(&value).map(Some).ok_or(EnvironmentError { variable, value, legal })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(overrides: Overrides, environment: &[(&str, &str)]) -> Result<Settings, String> {
        let value = |name| environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        Settings::resolve(overrides, value).map_err(|error| error.to_string())
    }

    #[test]
    fn caller_then_environment_then_default() {
        let none = Overrides::default();
        let asked = Overrides { policy: Some(Policy::Active), spin_ns: Some(3), tune: Some(true) };
        let environment = [(POLICY, "passive"), (SPIN_NS, "5000"), (NO_TUNE, "1")];

        let settings = resolve(none, &[]).expect("defaults");
        assert_eq!((settings.policy, settings.spin_ns, settings.tune), (Policy::Hybrid, None, true));
        let settings = resolve(none, &environment).expect("legal");
        assert_eq!((settings.policy, settings.spin_ns, settings.tune), (Policy::Passive, Some(5000), false));
        let settings = resolve(asked, &environment).expect("legal");
        assert_eq!((settings.policy, settings.spin_ns, settings.tune), (Policy::Active, Some(3), true));
        assert_eq!(resolve(none, &[(POLICY, ""), (SPIN_NS, ""), (NO_TUNE, "")]), resolve(none, &[]));
    }

    #[test]
    fn unknown_values_are_errors_that_name_the_legal_ones() {
        let cases = [
            (POLICY, "busy", r#"SPINWISE_WAIT_POLICY is "busy": it is one of passive, active, hybrid"#),
            (POLICY, "Active", r#"SPINWISE_WAIT_POLICY is "Active": it is one of passive, active, hybrid"#),
            (SPIN_NS, "5us", r#"SPINWISE_SPIN_NS is "5us": it is a number of nanoseconds"#),
            (SPIN_NS, "-1", r#"SPINWISE_SPIN_NS is "-1": it is a number of nanoseconds"#),
            (NO_TUNE, "yes", r#"SPINWISE_NO_TUNE is "yes": it is 0 or 1"#),
        ];
        for (variable, value, message) in cases {
            let overrides = Overrides { policy: Some(Policy::Passive), spin_ns: Some(0), tune: Some(true) };
            assert_eq!(resolve(overrides, &[(variable, value)]), Err(message.to_owned()));
        }
        let message = "busy".parse::<Policy>().expect_err("unknown").to_string();
        assert_eq!(message, r#"unknown wait policy "busy": it is one of passive, active, hybrid"#);
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert!(message.contains(policy.name()));
        }
    }

    #[test]
    fn budgets() {
        let budget = |environment: &[_]| resolve(Overrides::default(), environment).expect("legal").budget();
        assert_eq!(budget(&[]), SpinBudget::adaptive(round_trip()));
        assert_eq!(budget(&[(POLICY, "active")]), SpinBudget::fixed(ACTIVE));
        assert_eq!(budget(&[(POLICY, "passive"), (SPIN_NS, "7")]), SpinBudget::passive());
        assert_eq!(budget(&[(SPIN_NS, "7")]), SpinBudget::fixed(7));
        assert_eq!(budget(&[(NO_TUNE, "1")]), SpinBudget::fixed(UNTUNED));
    }

    #[test]
    fn the_announcement_is_one_line_that_says_why() {
        let line = |environment: &[_], threads, cpus| {
            let settings = resolve(Overrides::default(), environment).expect("legal");
            settings.announcement(threads, cpus)
        };
        assert_eq!(
            line(&[(POLICY, "passive")], 8, 2),
            "spinwise: wait policy passive (SPINWISE_WAIT_POLICY), parks at once; 8 threads on 2 CPUs"
        );
        assert_eq!(
            line(&[], 8, 2),
            "spinwise: wait policy hybrid (default), no spinning: threads outnumber CPUs; 8 threads on 2 CPUs"
        );
        assert_eq!(
            line(&[(SPIN_NS, "900")], 1, 1),
            "spinwise: wait policy hybrid (default), spins 900 ns, fixed; 1 thread on 1 CPU"
        );
        assert!(line(&[], 2, 2).contains("a measured park and wake"));
        let asked = Overrides { policy: Some(Policy::Active), ..Overrides::default() };
        let line = resolve(asked, &[]).expect("legal").announcement(2, 4);
        assert_eq!(line, "spinwise: wait policy active (as asked), spins 10000000 ns; 2 threads on 4 CPUs");
    }
}
