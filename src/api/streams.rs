//! How many answers may be open that go on and on: live events, and lines of long work. Depositors may have half of
//! them, so that there is room for those who look after the node.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{Answer, Kind, Refusal};
use super::wire::Role;

/// Those of a node.
#[derive(Debug)]
pub(crate) struct Streams {
    all: Arc<Semaphore>,
    depositors: Arc<Semaphore>,
}

/// One that is open, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream {
    _all: OwnedSemaphorePermit,
    _depositors: Option<OwnedSemaphorePermit>,
}

impl Streams {
    pub(crate) fn new(most: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(most)), depositors: Arc::new(Semaphore::new(most.div_ceil(2))) }
    }

    /// Opens one, or says that there are too many.
    pub(crate) fn open(&self, role: Role) -> Answer<OpenStream> {
        let take = |from: &Arc<Semaphore>| {
            from.clone().try_acquire_owned().map_err(|_| {
                Refusal::new(Kind::TOO_MANY, "too many streams are open (api.max_streams)").later(10)
            })
        };
        let depositors = (role == Role::Depositor).then(|| take(&self.depositors)).transpose()?;
        Ok(OpenStream { _all: take(&self.all)?, _depositors: depositors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depositors_leave_half_of_the_streams_to_others() {
        let streams = Streams::new(3);
        let open: Vec<_> = (0..2).map(|_| streams.open(Role::Depositor).unwrap()).collect();
        assert!(streams.open(Role::Depositor).is_err());
        let operator = streams.open(Role::Operator).unwrap();
        assert!(streams.open(Role::Admin).is_err());
        drop((open, operator));
        assert!(streams.open(Role::Depositor).is_ok());
    }
}
