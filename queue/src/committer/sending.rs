//! How plans that go together are sent: what is sent next, and what an answer means. Nothing here sends.

use ingest_store::{Error, Kind, Op};

use super::{Mark, Unit};

/// Plans that go together, by their places in a list: which of them are neither applied nor refused yet, and whether an
/// answer was lost since the last certain one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sending {
    rest: Vec<usize>,
    repeated: bool,
}

/// What an error means for what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Perhaps it was applied: the same is sent again.
    Again,
    /// This operation has refused it: whose it is, is taken out.
    Refused(usize),
    /// The same, but an earlier try may have been applied: the marks tell, before anything is taken out.
    Doubt(usize),
    /// Nothing is sent any more.
    GivenUp,
}

impl Sending {
    pub fn new(units: usize) -> Self {
        Self { rest: (0..units).collect(), repeated: false }
    }

    /// Those that are left.
    pub fn rest(&self) -> &[usize] {
        &self.rest
    }

    /// Whether an answer was lost, and what was sent is in doubt.
    pub fn is_in_doubt(&self) -> bool {
        self.repeated
    }

    /// The next multi.
    pub fn ops(&self, units: &[Unit]) -> Vec<Op> {
        self.rest.iter().flat_map(|at| units[*at].ops.iter().cloned()).collect()
    }

    /// What tells whether it was applied.
    pub fn marks<'a>(&self, units: &'a [Unit]) -> impl Iterator<Item = &'a Mark> {
        self.rest.iter().map(|at| &units[*at].mark)
    }

    /// After an error. `over`: nothing more can be sent on this session.
    pub fn heard(&mut self, error: &Error, over: bool) -> Heard {
        if let Some(op) = error.failed_op() {
            return if self.repeated { Heard::Doubt(op) } else { Heard::Refused(op) };
        }
        let again = match error.kind() {
            // These have waited for their deadline; what was sent before is still in doubt.
            Kind::Suspended | Kind::Busy => self.repeated,
            kind => matches!(kind, Kind::ConnectionLoss | Kind::Deadline),
        };
        if !again || over {
            return Heard::GivenUp;
        }
        self.repeated = true;
        Heard::Again
    }

    /// Takes out the one whose operation has refused the multi; its place, and where its operations began. Nothing
    /// of the rest was applied, now or before.
    pub fn take_out(&mut self, units: &[Unit], op: usize) -> (usize, usize) {
        self.repeated = false;
        let (place, start) = self.author(units, op);
        (self.rest.remove(place), start)
    }

    /// Whose operation that is, as a place in the rest, and where its operations begin.
    fn author(&self, units: &[Unit], op: usize) -> (usize, usize) {
        let mut start = 0;
        for (place, at) in self.rest.iter().enumerate() {
            let end = start + units[*at].ops.len();
            if op < end {
                return (place, start);
            }
            start = end;
        }
        (0, 0)
    }
}

/// What the marks of one multi tell of whether it was applied, one after the other: what one of them proves holds for all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verdict {
    gone: bool,
    missing: bool,
}

impl Verdict {
    /// After one more mark: whether it was applied, if that is certain by now.
    pub fn after(&mut self, mark: &Mark, is_there: bool) -> Option<bool> {
        match (mark, is_there) {
            // Nobody else writes that text.
            (Mark::Holds { .. }, true) => return Some(true),
            // The plan would have removed it.
            (Mark::Gone(_), false) => return Some(false),
            // Or it was there, and another has written over it since: the next may tell.
            (Mark::Holds { .. }, false) => self.missing = true,
            // Or it was another's doing.
            (Mark::Gone(_), true) => self.gone = true,
        }
        None
    }

    pub fn at_the_end(self) -> bool {
        self.gone && !self.missing
    }
}
