//! Guarded CLIF to in-memory code or a relocatable object.
