//! ark
