//! Benchmarks: `cargo run --release -p bench -- NAME [--json] [--seconds N] [--case SUBSTRING]`.
//!
//! Each starts the servers that it needs, and measures its baseline in the same run, before and after
//! what it compares with it: numbers of two runs, or of two machines, say little beside each other.
//! Results go to standard output, a line per case; what is being done meanwhile, to standard error.
//!
//! | to find | look in |
//! |---|---|
//! | the benchmarks | [`BENCHES`], and a file for each |
//! | the lines of the results | [`report`] |
//! | how load is made and counted | [`load`] |
//! | the baselines | [`bare`], and the one of several benchmarks: [`ceiling`] |
//! | what a job looks like in the tree | [`job`]; as the queue makes it: [`deposit`] |
//! | the servers and trees, and where they lie on disk | [`trees`], [`scratch`] |
//! | the chaos run, which measures nothing | [`chaos`] |
//! | where a process spends its time | [`flame`] |
//!
//! A benchmark that finds its own counts not confirmed by the tree fails: a number that cannot be
//! trusted is not printed. So does one that is asked for more than it found, if it was measured for
//! 10 s or more and without a profile: after all its lines it says what was too little.

mod acquire;
mod bare;
mod ceiling;
mod chaos;
mod deposit;
mod download;
mod expand;
mod flame;
mod growth;
mod job;
mod load;
mod manifest;
mod node;
mod report;
mod scale;
mod scratch;
mod store;
mod transitions;
mod trees;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::signal::unix::{SignalKind, signal};

use crate::load::Span;
use crate::report::Report;

/// One benchmark.
struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(Context) -> LocalBoxFuture<'static, Result<()>>,
}

/// Every benchmark there is.
const BENCHES: &[Bench] = &[
    Bench {
        name: "store",
        about: "What both engines commit through a session, against the bare client on the same server",
        run: |context| store::run(context).boxed_local(),
    },
    Bench {
        name: "transitions",
        about: "Whole lives of jobs through the queue, per transition, against the bare client's multis",
        run: |context| transitions::run(context).boxed_local(),
    },
    Bench {
        name: "acquire",
        about: "Acquiring one job when few wait and when very many do",
        run: |context| acquire::run(context).boxed_local(),
    },
    Bench {
        name: "expand",
        about: "Jobs made from the rows of a batch, against the same creates by the bare client",
        run: |context| expand::run(context).boxed_local(),
    },
    Bench {
        name: "manifest",
        about: "A batch manifest of a million rows checked from disk, against reading its lines",
        run: |context| manifest::run(context).boxed_local(),
    },
    Bench {
        name: "download",
        about: "Files over HTTP, verified and on the disk, against curl, sha256sum and sync",
        run: |context| download::run(context).boxed_local(),
    },
    Bench {
        name: "node",
        about: "Jobs through a whole node, a process of its own, against the bare client's multis; its memory",
        run: |context| node::run(context).boxed_local(),
    },
    Bench {
        name: "chaos",
        about: "Not a speed: three nodes under every fault there is; fails if anything is lost, doubled or left",
        run: |context| chaos::run(context).boxed_local(),
    },
    Bench {
        name: "scale",
        about: "A million jobs: accepted, expanded, waiting, listed, acquired and worked on; times and memory",
        run: |context| scale::run(context).boxed_local(),
    },
    Bench {
        name: "growth",
        about: "The time per job, by the number of jobs and of nodes",
        run: |context| growth::run(context).boxed_local(),
    },
];

const SERVER_WARM_UP: Duration = Duration::from_secs(5);
/// What is measured for a shorter time is not judged: it says more about the machine.
const JUDGED: Duration = Duration::from_secs(10);

/// What a benchmark is asked for, and where its results go.
struct Context {
    span: Span,
    case: Option<String>,
    /// With the cases that take minutes to prepare.
    long: bool,
    json: bool,
    /// Where flame graphs of nodes go.
    flame: Option<PathBuf>,
    /// Of the chaos run.
    seed: u64,
    length: Duration,
    /// How many rows, where that can be chosen.
    rows: Option<u64>,
    /// Whether the results go into the documentation.
    docs: bool,
    report: Report,
}

impl Context {
    /// Whether a case is to be run.
    fn wants(&self, case: &str) -> bool {
        self.case.as_deref().is_none_or(|part| case.contains(part))
    }

    /// Whether a result must be what is asked for. A profile costs time of its own.
    fn judges(&self) -> bool {
        self.span.measured >= JUDGED && self.flame.is_none()
    }

    /// How long a server is kept busy with a kind of work before that is measured: it compiles itself as
    /// it runs, and for each kind anew.
    fn server_warm_up(&self) -> Span {
        Span { warm_up: Duration::ZERO, measured: self.span.measured.min(SERVER_WARM_UP) }
    }
}

/// Measures one layer of the ingest node against a baseline of the same run.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    /// The benchmark to run
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    name: String,
    /// Print each result as a JSON line
    #[arg(long)]
    json: bool,
    /// How long each part is measured; each also has a warm-up, of up to 2 s
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Run only the cases that have this in their name
    #[arg(long, value_name = "SUBSTRING")]
    case: Option<String>,
    /// Run the cases that take minutes to prepare, too
    #[arg(long)]
    long: bool,
    /// Of the node benchmark: a flame graph of each node goes into this directory; what is measured meanwhile is less than it would be
    #[arg(long, value_name = "DIR")]
    flame: Option<PathBuf>,
    /// How long the chaos run makes faults
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = minutes)]
    minutes: f64,
    /// What the schedule of the chaos run is made of; otherwise by chance
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How many rows the manifest of `scale` has (a million otherwise), and the most jobs of `growth`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rows: Option<u64>,
    /// Write the results of `growth` into the documentation
    #[arg(long)]
    docs: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of minutes".to_owned())?;
    if (0.1..=1440.0).contains(&number) { Ok(number) } else { Err("0.1 to 1440 minutes".to_owned()) }
}

fn names() -> Vec<PossibleValue> {
    BENCHES.iter().map(|bench| PossibleValue::new(bench.name).help(bench.about)).collect()
}

fn main() -> ExitCode {
    if let Some(code) = download::child().or_else(node::child) {
        return code;
    }
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<()> {
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == args.name) else {
        bail!("there is no benchmark {:?}", args.name);
    };
    let context = Context {
        span: Span::measuring(Duration::from_secs(args.seconds)),
        case: args.case,
        long: args.long,
        json: args.json,
        flame: args.flame,
        seed: args.seed.unwrap_or_else(|| rand::random_range(0..1_000_000)),
        length: Duration::from_secs_f64(args.minutes * 60.0),
        rows: args.rows,
        docs: args.docs,
        report: Report::new(bench.name, args.json),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // A run that is broken off still takes its servers and their files with it.
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            done = (bench.run)(context) => done.with_context(|| bench.name),
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        }
    })
}
