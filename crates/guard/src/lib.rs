//! Effects, spin cycles, the plan, guard insertion and the independent checker.
