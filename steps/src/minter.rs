//! minter
