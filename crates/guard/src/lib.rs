//! Which loops are guarded, the guards themselves, and the proof that they suffice.
//!
//! This crate must not know how CLIF was made or what becomes of it: it reads functions whose calls carry the names of
//! [`spinwise_model::symbol`], and knows neither lifter nor code generator. The rule, its definitions and a sketch of
//! its proof are in `README.md`.
//!
//! In the order data moves: [`effects`] says what an instruction means, [`Planner`] looks at a module's functions,
//! one at a time, and answers with a [`Plan`], plain data; [`insert()`] puts it into a function; [`Checker`] proves the result without the planner;
//! [`explain_json`] and [`explain_text`] print the plan.

mod callees;
mod check;
mod cuts;
pub mod effects;
mod explain;
mod facts;
mod insert;
mod plan;
mod planner;
mod require;
mod summary;
mod watch;

pub use check::{CheckReport, Checker, Problem, View, Violation, check, check_boundary};
pub use explain::{explain_json, explain_text};
pub use insert::{insert, insert_boundary_poll, thunk_signature};
pub use plan::{
    Charge, EntryPoll, EntryReason, FunctionPlan, LoopPlan, Mode, Plan, Relation, Site, Totals, Verdict, Watch,
};
pub use planner::{Planner, Seen, plan};
