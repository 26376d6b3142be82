//! `ingestd request` and `ingestd requests`: what is asked of the nodes by writing it into the tree.
//!
//! With `--tree` the command writes there itself: no node has to serve HTTP, and whoever may write to the tree may do
//! this. Without it the request is put through a node.
//!
//! **When things break.** A command that ends early leaves its request, which is done all the same; `ingestd requests`
//! shows it. A result that was read is taken away.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use ingest_actors::actions::{Action, Order, Refused};
use ingest_queue::date::Clock;
use ingest_queue::error::Error;
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::requests::{self, NewRequest};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Session, Store};
use serde_json::{Map, Value};

use super::client::{Limit, Server};
use super::confirm::Confirm;
use super::exit::Failed;
use super::progress;
use super::screen::{Cell, Column, Records, Screen, Table};
use super::words;
use crate::api::requests::{outcome, problem_of, shown};
use crate::api::wire::{ActionList, PutRequest, RequestForgotten, RequestLine, RequestOutcome, RequestPage};

/// How long the tree may take to answer at first.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a node is asked to wait for a result before it says how far the request is.
const AT_A_TIME: Duration = Duration::from_secs(30);

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Request {
    /// The action, such as `job.hold`; `ingestd requests --actions` lists them
    action: String,

    /// A parameter of the action: NAME=VALUE, where VALUE is JSON or a text; NAME may be a path, as in `filter.batch`
    #[arg(long = "param", short = 'p', value_name = "NAME=VALUE", value_parser = param)]
    params: Vec<(String, Value)>,

    /// All parameters as one JSON object, from a file; `-` is stdin
    #[arg(long, value_name = "FILE")]
    params_from: Option<String>,

    /// The node that is to do it; otherwise any does
    #[arg(long)]
    node: Option<String>,

    /// A uuid of your own: the same one again is the same request
    #[arg(long, value_name = "UUID")]
    id: Option<String>,

    /// Do not wait for the result
    #[arg(long)]
    no_wait: bool,

    /// How long to wait for the result
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    timeout: Duration,

    #[command(flatten)]
    at: TreeOption,

    #[command(flatten)]
    server: Server,
}

/// Where the tree is.
#[derive(Debug, clap::Args)]
pub(super) struct TreeOption {
    /// Write to the tree on this ensemble (host:port,host:port/chroot) directly, without a node's API
    #[arg(long, value_name = "CONNECT", env = "INGESTD_TREE")]
    tree: Option<String>,
}

/// What `ingestd requests` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Requests {
    #[command(subcommand)]
    what: Option<What>,

    /// List the actions that can be asked for
    #[arg(long)]
    actions: bool,

    /// Only those that are waiting, running or done
    #[arg(long)]
    state: Option<String>,

    #[command(flatten)]
    limit: Limit,

    #[command(flatten)]
    at: TreeOption,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show what a request came to, or how far it is
    Show {
        /// The request's uuid
        id: String,
        #[command(flatten)]
        at: TreeOption,
        #[command(flatten)]
        server: Server,
    },
    /// Take a request back, or away with its result
    Forget {
        /// The request's uuid
        id: String,
        #[command(flatten)]
        confirm: Confirm,
        #[command(flatten)]
        at: TreeOption,
        #[command(flatten)]
        server: Server,
    },
}

fn param(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("it looks like NAME=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

fn put_in(object: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [last] => {
            object.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = object.entry((*first).to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put_in(inner, rest, value);
            }
        }
    }
}

impl TreeOption {
    /// A session on the tree, if one was asked for.
    pub(super) async fn open(&self) -> Result<Option<(Queue, Session)>> {
        let Some(connect) = &self.tree else { return Ok(None) };
        let config = ZookeeperConfig { connect_limit: CONNECT, ..ZookeeperConfig::new(connect.as_str()) };
        let store = Store::new(std::sync::Arc::new(Zookeeper::new(config)?), Limits::default());
        let session = store.session().await.with_context(|| format!("the tree at {connect}"))?;
        let queue = Queue::on(&session, Settings::new(host()), Clock::system());
        Ok(Some((queue, session)))
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn user() -> String {
    crate::cli::user::name().unwrap_or_else(|| "somebody".to_owned())
}

/// As the API would have told it, with the same exit code.
pub(super) fn told(error: Error) -> anyhow::Error {
    match error {
        Error::Store(store) => store.into(),
        error => Failed::Problem(Box::new(problem_of(&error.into()))).into(),
    }
}

impl Request {
    pub(super) async fn run(self) -> Result<()> {
        let params = self.params()?;
        // Told before anything is written.
        let wrong = |refused: Refused| Failed::Problem(Box::new(problem_of(&refused)));
        let action = Action::named(&self.action).map_err(wrong)?;
        Order::read(action.name, Value::Object(params.clone())).map_err(wrong)?;
        if action.of_node && self.node.is_none() {
            return Err(Failed::Usage(format!("{} is about one node: say --node", action.name)).into());
        }
        match self.at.open().await? {
            Some((queue, session)) => {
                let done = self.directly(&queue, params).await;
                let _ = session.close().await;
                done
            }
            None => self.through_a_node(params).await,
        }
    }

    fn params(&self) -> Result<Map<String, Value>> {
        let mut params = match self.params_from.as_deref() {
            None => Map::new(),
            Some(file) => {
                let text = if file == "-" {
                    std::io::read_to_string(std::io::stdin()).context("stdin")?
                } else {
                    std::fs::read_to_string(file).with_context(|| file.to_owned())?
                };
                serde_json::from_str(&text).map_err(|error| Failed::Usage(format!("{file}: {error}")))?
            }
        };
        for (name, value) in &self.params {
            put_in(&mut params, &name.split('.').collect::<Vec<_>>(), value.clone());
        }
        Ok(params)
    }

    async fn directly(&self, queue: &Queue, params: Map<String, Value>) -> Result<()> {
        let new = NewRequest {
            id: self.id.clone().unwrap_or_default(),
            action: self.action.clone(),
            node: self.node.clone(),
            who: user(),
            from: format!("tree {}@{}", user(), host()),
            params: Value::Object(params),
            wait: !self.no_wait,
        };
        let id = queue.put_request(&new).await.map_err(told)?;
        if self.no_wait {
            let line = queue.request(&id).await.map_err(told)?;
            return self.was_put(&shown(&line));
        }
        let bar = progress::waiting(&format!("{} waits for a node", self.action));
        let waiting = queue.await_request(&id, |line| bar.set_message(far(&shown(line))));
        let answered = tokio::time::timeout(self.timeout, waiting).await;
        bar.finish_and_clear();
        let answered = answered.map_err(|_| self.not_yet(&id))?.map_err(told)?;
        // Read, and so of no use any more.
        queue.forget_request(&id).await.map_err(told)?;
        self.print(&outcome(id, answered))
    }

    async fn through_a_node(&self, params: Map<String, Value>) -> Result<()> {
        let client = self.server.client()?;
        let (action, node, id) = (self.action.clone(), self.node.clone(), self.id.clone());
        let asked = PutRequest { action, params, node, id };
        let line: RequestLine = client.send(client.post(&["requests"]).json(&asked)?).await?;
        if self.no_wait {
            return self.was_put(&line);
        }
        let id = line.id;
        let bar = progress::waiting(&format!("{} waits for a node", self.action));
        let waiting = async {
            // The node answers when there is news, and sleeps until then.
            loop {
                let ask = client.get(&["requests", &id, "result"]).with("wait", Some(AT_A_TIME.as_secs()));
                let answer = client.answer(ask).await?;
                if answer.status() == reqwest::StatusCode::OK {
                    return client.read::<RequestOutcome>(answer).await;
                }
                let later = super::client::retry_after(answer.headers());
                let line: RequestLine = client.read(answer).await?;
                bar.set_message(far(&line));
                // One that ends does not wait any more, and says when to ask again.
                if let Some(later) = later {
                    tokio::time::sleep(later).await;
                }
            }
        };
        let done = tokio::time::timeout(self.timeout, waiting).await;
        bar.finish_and_clear();
        let done = done.map_err(|_| self.not_yet(&id))??;
        let _: RequestForgotten =
            client.send(client.ask(reqwest::Method::DELETE, &["requests", &id])).await?;
        self.print(&done)
    }

    fn not_yet(&self, id: &str) -> Failed {
        let waited = humantime::format_duration(self.timeout);
        Failed::NotYet(format!("no result within {waited}; the request goes on: ingestd requests show {id}"))
    }

    fn was_put(&self, line: &RequestLine) -> Result<()> {
        if self.server.json() {
            return self.server.output().print(line);
        }
        Screen::stdout().say(&format!("{} was put: ingestd requests show {}", line.action, line.id))
    }

    fn print(&self, done: &RequestOutcome) -> Result<()> {
        print(&self.server, done)
    }
}

fn print(server: &Server, done: &RequestOutcome) -> Result<()> {
    if server.json() {
        server.output().print(done)?;
    }
    if let Some(problem) = &done.problem {
        return Err(Failed::Problem(Box::new(problem.clone())).into());
    }
    if server.json() {
        return Ok(());
    }
    let mut records = Records::default();
    records.add("done by", &done.node);
    match &done.data {
        Value::Object(data) => {
            for (name, value) in data {
                records.add(name, text(value));
            }
        }
        Value::Null => {}
        value => records.add("result", text(value)),
    }
    Screen::stdout().records(&records)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn far(line: &RequestLine) -> String {
    match (line.state.as_str(), &line.taken_by) {
        ("running", Some(node)) if line.progress.is_empty() => format!("{} on {node}", line.action),
        ("running", Some(node)) => format!("{} on {node}: {}", line.action, line.progress),
        _ => format!("{} waits for a node", line.action),
    }
}

impl Requests {
    pub(super) async fn run(self) -> Result<()> {
        match self.what {
            Some(What::Show { id, at, server }) => show(&id, &at, &server).await,
            Some(What::Forget { id, confirm, at, server }) => {
                confirm.can_be_asked("forgetting a request")?;
                confirm.ask(
                    &format!("Forget the request {id}"),
                    "If it still waits, nobody does it; if it is done, its result is gone.",
                )?;
                forget(&id, &at, &server).await
            }
            None if self.actions => actions(&self.server),
            None => self.list().await,
        }
    }

    async fn list(&self) -> Result<()> {
        let page = if let Some((queue, session)) = self.at.open().await? {
            let lines = queue.requests().await.map_err(told);
            let _ = session.close().await;
            let wanted = |line: &RequestLine| self.state.as_ref().is_none_or(|state| line.state == *state);
            let lines = lines?;
            let wanted = lines.iter().map(shown).filter(wanted).take(self.limit.get());
            RequestPage { requests: wanted.collect(), next: None }
        } else {
            let client = self.server.client()?;
            let ask = client.get(&["requests"]).with("state", self.state.as_ref());
            client.all(ask, self.limit, |_| {}).await?
        };
        if self.server.json() {
            return self.server.output().print(&page);
        }
        let mut table = Table::new([
            Column::word("ID"),
            Column::word("ACTION"),
            Column::word("STATE"),
            Column::word("NODE"),
            Column::word("WHO"),
            Column::text("FROM").minor(),
            Column::text("AT").minor(),
            Column::text("PROGRESS").minor(),
        ]);
        for line in &page.requests {
            table.row([
                Cell::new(&line.id),
                Cell::new(&line.action),
                Cell::new(&line.state),
                Cell::new(line.taken_by.as_deref().or(line.node.as_deref()).unwrap_or_default()),
                Cell::new(&line.who),
                Cell::new(&line.from),
                Cell::new(words::date(line.at)),
                Cell::new(&line.progress),
            ]);
        }
        let screen = Screen::stdout();
        if table.is_empty() { screen.say("There are no requests.") } else { screen.table(&table) }
    }
}

async fn show(id: &str, at: &TreeOption, server: &Server) -> Result<()> {
    let found = if let Some((queue, session)) = at.open().await? {
        let found = look(&queue, id).await;
        let _ = session.close().await;
        found?
    } else {
        let client = server.client()?;
        let answer = client.answer(client.get(&["requests", id, "result"])).await?;
        if answer.status() == reqwest::StatusCode::OK {
            Ok(client.read(answer).await?)
        } else {
            Err(client.read(answer).await?)
        }
    };
    match found {
        Ok(done) => print(server, &done),
        Err(line) if server.json() => server.output().print(&line),
        Err(line) => Screen::stdout().say(&format!("{} is {}: {}", line.id, line.state, far(&line))),
    }
}

async fn look(queue: &Queue, id: &str) -> Result<Result<RequestOutcome, RequestLine>> {
    let id = requests::id_of(id).map_err(told)?;
    if let Some(answered) = queue.request_result(&id).await.map_err(told)? {
        return Ok(Ok(outcome(id, answered)));
    }
    Ok(Err(shown(&queue.request(&id).await.map_err(told)?)))
}

async fn forget(id: &str, at: &TreeOption, server: &Server) -> Result<()> {
    let gone = if let Some((queue, session)) = at.open().await? {
        let id = requests::id_of(id).map_err(told)?;
        let gone = queue.forget_request(&id).await.map_err(told);
        let _ = session.close().await;
        gone.map(|()| RequestForgotten { id })?
    } else {
        let client = server.client()?;
        client.send(client.ask(reqwest::Method::DELETE, &["requests", id])).await?
    };
    if server.json() {
        return server.output().print(&gone);
    }
    Screen::stdout().say(&format!("{} is gone.", gone.id))
}

/// Of this program: no node is asked.
fn actions(server: &Server) -> Result<()> {
    let list: ActionList = crate::api::requests::action_list();
    if server.json() {
        return server.output().print(&list);
    }
    let mut table = Table::new([
        Column::word("ACTION"),
        Column::text("PARAMETERS"),
        Column::word("ROLE"),
        Column::text("WHAT IT DOES"),
        Column::text("IF A NODE DIES WITH IT").minor(),
    ]);
    for action in &list.actions {
        let params = action.params.iter();
        let params =
            params.map(|param| if param.required { param.name.clone() } else { format!("[{}]", param.name) });
        table.row([
            Cell::new(&action.name),
            Cell::new(params.collect::<Vec<_>>().join(" ")),
            Cell::new(&action.role),
            Cell::new(&action.what),
            Cell::new(&action.once),
        ]);
    }
    Screen::stdout().table(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_json_or_text_and_may_be_paths() {
        let mut all = Map::new();
        for text in ["jid=jid0000000001", "force=true", "filter.states=[\"failed\"]", "filter.text=a b"] {
            let (name, value) = param(text).unwrap();
            put_in(&mut all, &name.split('.').collect::<Vec<_>>(), value);
        }
        assert_eq!(
            Value::Object(all),
            serde_json::json!({
                "jid": "jid0000000001", "force": true, "filter": {"states": ["failed"], "text": "a b"}
            })
        );
        assert!(param("what").is_err());
    }
}
