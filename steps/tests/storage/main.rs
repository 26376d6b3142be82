//! Where objects are kept, from outside: what is stored, read back, audited, and what a kill leaves.

mod http;
mod kill;
mod objects;
mod ocfl;
mod s3;
