//! Dominators, natural loops and strongly connected components of a plain graph.
