//! bag
