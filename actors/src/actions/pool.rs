//! Pools by their names.

use crate::settings::{Pool, Pools};

/// The pool of this name, to be changed.
pub fn pool_of<'a>(pools: &'a mut Pools, name: &str) -> Option<&'a mut Pool> {
    Some(match name {
        "pending" => &mut pools.pending,
        "estimating" => &mut pools.estimating,
        "provisioning" => &mut pools.provisioning,
        "downloading" => &mut pools.downloading,
        "processing" => &mut pools.processing,
        "recording" => &mut pools.recording,
        "notify" => &mut pools.notify,
        "access_small" => &mut pools.access_small,
        "access_large" => &mut pools.access_large,
        _ => return None,
    })
}
