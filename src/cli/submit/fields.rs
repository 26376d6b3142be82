//! What is said of a submission.

use crate::api::wire::Submission;
use crate::cli::words;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The submission")]
pub(super) struct Fields {
    /// The profile: what the collection wants
    #[arg(long, short, value_name = "NAME")]
    profile: String,

    /// Who deposits; otherwise the token's name, and without a token yours
    #[arg(long, value_name = "NAME")]
    submitter: Option<String>,

    /// What it is: file, container, object-manifest, batch-manifest, container-batch-manifest,
    /// single-file-batch-manifest; otherwise it is guessed
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,

    /// The payload's name; otherwise that of the file or the URL
    #[arg(long, value_name = "NAME")]
    filename: Option<String>,

    /// The payload's size in bytes, if it is a URL
    #[arg(long, value_name = "BYTES")]
    size: Option<u64>,

    /// The digest's algorithm: sha-256, sha-512, sha-1, md5, …
    #[arg(long, value_name = "ALGORITHM", requires = "digest_value")]
    digest_type: Option<String>,

    /// The payload's digest; of an upload it is otherwise computed
    #[arg(long, value_name = "HEX", requires = "digest_type")]
    digest_value: Option<String>,

    /// The object's ARK
    #[arg(long, value_name = "ARK")]
    primary_id: Option<String>,

    /// The depositor's own id; may be given several times
    #[arg(long, value_name = "ID")]
    local_id: Vec<String>,

    /// Who made it
    #[arg(long)]
    creator: Option<String>,

    /// What it is called
    #[arg(long)]
    title: Option<String>,

    /// When it was made
    #[arg(long)]
    date: Option<String>,

    /// A Dublin Core term: subject=maps; may be given several times
    #[arg(long, value_name = "TERM=TEXT", value_parser = term)]
    dc: Vec<(String, String)>,

    /// Kept with the submission
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Mail addresses of those who get the report, apart by commas
    #[arg(long, value_name = "ADDRESSES")]
    notification: Option<String>,

    /// What becomes of an object that is there: `add` (the default) and `update` merge, `replace` keeps no other file;
    /// `update` and `replace` need one. Also `--mode`
    #[arg(long, visible_alias = "mode", value_name = "MODE")]
    submission_mode: Option<String>,

    /// 0 to 99, lower runs first; or a class: now, important, new, reset, updates, slow, review, time-allows
    #[arg(long, value_parser = words::any_priority)]
    priority: Option<serde_json::Value>,

    /// Not before this date
    #[arg(long, value_name = "DATE")]
    process_date: Option<String>,

    /// Not after this date; 0: never too late
    #[arg(long, value_name = "DATE")]
    expiration_date: Option<String>,

    /// When it came to be; otherwise now. Under a key, what is older than what waits there is stale
    #[arg(long, value_name = "DATE")]
    insertion_date: Option<String>,

    /// Of submissions with the same key one waits: another becomes part of it, and is queued behind it once its
    /// jobs are being made
    #[arg(long)]
    key: Option<String>,

    /// Your own name for the submission: repeated, it is answered with the first one's batch
    #[arg(long, value_name = "UUID")]
    uuid: Option<String>,
}

fn term(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it looks like subject=maps".to_owned()),
    }
}

impl Fields {
    /// With the name of whoever submits, unless a token says it.
    pub(super) fn submission(&self, has_token: bool) -> Submission {
        let yours = || crate::cli::user::name().filter(|_| !has_token);
        Submission {
            profile: self.profile.clone(),
            submitter: self.submitter.clone().or_else(yours).unwrap_or_default(),
            payload_url: None,
            manifest: None,
            kind: self.kind.clone(),
            filename: self.filename.clone(),
            size: self.size,
            digest_type: self.digest_type.clone(),
            digest_value: self.digest_value.clone(),
            primary_id: self.primary_id.clone(),
            local_id: self.local_id.clone(),
            creator: self.creator.clone(),
            title: self.title.clone(),
            date: self.date.clone(),
            dc: self.dc.iter().cloned().collect(),
            note: self.note.clone(),
            notification: self.notification.clone(),
            submission_mode: self.submission_mode.clone(),
            response_type: None,
            priority: self.priority.clone(),
            process_date: self.process_date.clone(),
            expiration_date: self.expiration_date.clone(),
            insertion_date: self.insertion_date.clone(),
            key: self.key.clone(),
            uuid: self.uuid.clone(),
        }
    }
}
