//! One wait primitive, its policies, and how it parks.
