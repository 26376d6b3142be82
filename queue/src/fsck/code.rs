//! What can be wrong with a tree, as a table: each invariant that is checked has a line here.

use std::fmt::{self, Write};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Info,
    /// Wrong, and nobody waits for it.
    Warn,
    /// A job, a batch or an access item is stopped, lost or doubled by it.
    Error,
}

struct Row {
    text: &'static str,
    severity: Severity,
    title: &'static str,
    repair: &'static str,
}

macro_rules! codes {
    ($($name:ident = $text:literal, $severity:ident, $title:literal, $repair:literal;)+) => {
        /// The kind of a finding. Its short text is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $title] $name,)+ }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            fn row(self) -> Row {
                match self {
                    $(Code::$name => Row {
                        text: $text, severity: Severity::$severity, title: $title, repair: $repair,
                    },)+
                }
            }
        }
    };
}

codes! {
    NoDirectory = "T01", Warn, "a directory of the map is missing", "made again, empty";
    UnknownNode = "T02", Warn, "a node that the map does not know",
        "none: a person must look, and move or delete it";
    NotARef = "T03", Warn, "a name in a list of references that is none",
        "an empty one without children is recorded in the quarantine and removed; for others a person must look";

    JobStatus = "J01", Error, "a job's status is missing or unreadable",
        "rebuilt if its queue and its history agree; otherwise the job fails, recoverable";
    JobConfiguration = "J02", Error, "a job's configuration is missing or unreadable",
        "the job fails, not recoverable";
    JobBid = "J03", Error, "a job does not say which batch it belongs to",
        "taken from its configuration, or from the one batch that lists it";
    JobNode = "J04", Warn, "a node of a job is unreadable",
        "its data goes to the quarantine; the node is removed, a priority becomes that of the queue or the default";
    InNoQueue = "J05", Error, "a job is not in the queue of its status and priority", "put into it";
    WrongQueue = "J06", Error, "a job is in a queue where its status and priority do not put it",
        "taken out of it";
    InNoList = "J07", Error, "a job is not in the list of its batch where its status puts it", "put into it";
    WrongList = "J08", Error, "a job is in a list of a batch where its status does not put it",
        "taken out of it";
    NoBatch = "J09", Error, "a job's batch is not there",
        "none: a person must look, and delete the job or submit it again";
    GoneFromQueue = "J10", Error, "a queue names a job that is gone", "taken out of it";
    GoneFromList = "J11", Error, "a batch names a job that is gone",
        "moved to batch-deleted, so that the batch can end";
    FailedForGood = "J12", Info, "a failed job has no configuration and cannot be tried again",
        "none: delete the job when its batch has been reported, and submit it again";
    TwoBatches = "J13", Warn, "a job's bid and its configuration name different batches",
        "none: a person must look; the bid counts";
    NoSuchQueue = "J14", Error, "a job's status is one that has no queue in this dialect",
        "none: a person must look, and set its status";

    BatchStatus = "B01", Error, "a batch's status is missing or unreadable",
        "without jobs: held; with jobs and no report: processing; with a report: failed; otherwise a person must look";
    Submission = "B02", Error, "a batch's submission is missing or unreadable",
        "none: a person must look, and submit it again";
    Expansion = "B03", Error, "a batch does not say how far it is expanded",
        "rebuilt from its jobs if it is past processing; otherwise a person must look";
    JobCount = "B04", Error, "a batch has more or fewer jobs than its expansion says",
        "none, but that of its jobs; if it is still so afterwards, a person must look";
    EarlyJobs = "B05", Error, "a batch that is not expanded has jobs", "none: a person must look";
    RunningJobs = "B06", Error, "a batch that has ended has jobs in batch-processing that have not",
        "reporting becomes processing; completed and update-reporting become failed";
    BeingDeleted = "B07", Info, "a batch is being deleted", "none: run the deletion again";
    BatchNode = "B08", Warn, "a node of a batch is unreadable",
        "its data goes to the quarantine; the node becomes empty, a mark stays in force";
    NoList = "B09", Warn, "a batch has no list of its running jobs, and cannot end", "made again, empty";
    Manifest = "B10", Error, "a batch's manifest is missing or unreadable",
        "its data goes to the quarantine if no row of it is needed any more; otherwise a person must look";
    Numbers = "B11", Warn, "a batch's expansion names other numbers than those of its jobs",
        "they are left out, and its report lists its jobs";

    CounterBehind = "N01", Error, "a counter of the tree is behind a name that is there, and would give it out again",
        "raised past it";
    TreeBehind = "N02", Error,
        "the tree counts numbers again that were used: it is older than what is beside it, or another tree",
        "raised past the used numbers; nodes take work again then";
    MinterCounter = "N03", Error, "the counter of a minter is unreadable",
        "none: a person must look, and restore its last value, or configure a new shoulder";
    NoIdentity = "N04", Error,
        "the tree does not say to which repository it belongs, and what is beside it does",
        "the identity is written into the tree; nodes take work again then";
    Foreign = "N05", Error, "a place belongs to another repository",
        "none: a person must look, and correct the configuration";
    Unmarked = "N06", Info, "a place does not say to which repository it belongs", "the identity is written into it";
    NotCompared = "N07", Warn, "what is beside the tree cannot be compared with it",
        "none: a person must look, and run it again when everything answers";

    LostUuid = "U01", Warn, "a uuid leads to no batch", "removed; what it held goes to the quarantine";
    NoUuid = "U02", Error, "a batch is not found by its uuid",
        "the uuid is made to lead to it, unless it leads to another batch";

    LastingLock = "L01", Error, "a lock, or a candidate of an election, that belongs to no session, and is never released",
        "removed at its version";
    LocalId = "L02", Warn, "a local id is reserved for no job, or for one that has ended",
        "removed; what it held goes to the quarantine";
    Hold = "L03", Warn, "a hold does not say who holds and why",
        "its data goes to the quarantine; the hold stays in force";

    LostKey = "K01", Warn, "a key leads to a batch that does not have it: gone, ended, or another's",
        "freed; what it held goes to the quarantine";
    LostDate = "K02", Warn, "a date is kept for a job that does not wait for it", "removed";
    NoDate = "K03", Error, "a job waits for a date, or expires at one, that is not kept", "kept again";
    NoKey = "K04", Error, "a batch waits or is processed under a key that does not lead to it",
        "the key is made to lead to it; if it leads to another batch a person must look, and delete one of them";

    LastingSlot = "S01", Warn, "a slot of a semaphore belongs to no session, and is never given back",
        "removed at its version";
    LeakedSlot = "S02", Warn, "a slot of a semaphore is held for a job that nobody works on",
        "given back, at the version of the slot";
    Semaphore = "S03", Warn, "the limits, or the name of a semaphore, are unreadable",
        "its data goes to the quarantine; limits become none until they are set again, a name that of the node";
    Leftover = "S04", Info, "parts of a large value that no node announces",
        "removed once they are older than the grace time";

    LostReport = "O01", Warn, "an outgoing report is unreadable, or its batch is gone",
        "goes to the quarantine";
    Alert = "O02", Warn, "what the administrators are to be told is unreadable", "goes to the quarantine";
    Space = "P01", Warn, "the reservation of a file system is unreadable",
        "its data goes to the quarantine and it is removed: it is computed again from the admitted jobs";
    AccessStatus = "A01", Error, "an access item's status is missing or unreadable",
        "its data goes to the quarantine; the item fails, and can be requeued";
    AccessToken = "A02", Error, "an access item's token is missing or unreadable",
        "none: a person must look, and delete the item";

    Feed = "F01", Error, "a feed's checkpoint is unreadable",
        "its data goes to the quarantine; the feed is paused at its beginning, for a person to set the checkpoint";
    FeedName = "F02", Error, "a feed has the name of another",
        "none: a person must look, and forget the feed or set its name";
    LastingWorker = "F03", Warn, "a worker belongs to no session, and is given feeds for ever",
        "removed; what it held goes to the quarantine";
    Assignment = "F04", Warn, "it cannot be read who is to consume which feeds",
        "its data goes to the quarantine; the feeds are divided anew";
    TooManyFeeds = "F05", Warn, "there are more feeds than 10,000",
        "none: a person must look, and forget those that nobody consumes";

    Request = "R01", Warn, "a management request is unreadable, and nobody takes it",
        "goes to the quarantine";
    LostResult = "R02", Warn, "a result has no request, or a request is done and has no result",
        "a result without a request goes to the quarantine; a request without its result is taken again";
    ResultData = "R03", Warn, "a result is unreadable, or the data that it announces is missing or unreadable",
        "the result says what is lost; one that was unreadable goes to the quarantine";
    LostRequestLock = "R04", Warn, "somebody is at a request that is gone or done",
        "removed at its version";
    RequestLeftover = "R05", Info, "parameters, data or a waiter of a request that is not there",
        "none: the cleanup of requests removes it";

    Profile = "C01", Error, "a profile in the tree is unreadable, and is not used",
        "none: a person must look, and put it again (`ingestd profile put`)";
    Conf = "C02", Error, "the settings of the cluster are unreadable, and are not used",
        "none: a person must look, and set them again (`ingestd settings set`)";
    BatchProfile = "C03", Error, "the profile that a batch's jobs were made with is unreadable",
        "goes to the quarantine; its jobs end with the profile as it is now";
}

impl Code {
    /// The stable short text, such as `J05`.
    pub fn text(self) -> &'static str {
        self.row().text
    }

    pub fn severity(self) -> Severity {
        self.row().severity
    }

    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// What a repair does about it.
    pub fn repair(self) -> &'static str {
        self.row().repair
    }

    /// All codes as a Markdown table.
    pub fn table() -> String {
        let mut text = "| code | severity | what is wrong | repair |\n|---|---|---|---|\n".to_owned();
        for code in Self::ALL {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {code} | {} | {} | {} |", code.severity(), code.title(), code.repair());
        }
        text
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.text())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Info => "info",
            Severity::Warn => "warn",
            Severity::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_code_has_a_text_of_its_own_and_a_line_in_the_table() {
        let texts: HashSet<_> = Code::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        let table = Code::table();
        assert_eq!(table.lines().count(), Code::ALL.len() + 2);
        assert!(table.contains("| J05 | error | a job is not in the queue"), "{table}");
    }
}
