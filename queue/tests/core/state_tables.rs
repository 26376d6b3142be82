//! The tables of the code are the tables of the design.

use std::fmt::Debug;

use ingest_queue::dialect::Dialect;
use ingest_queue::states::{
    AccessState, BatchState, JobState, Refused, States, To, UnknownState, Who, Why, diagram, table,
};

use crate::tables::{self, ACCESS, BATCHES, DIALECTS, JOB_ENDS, JOBS, RESTARTS, Row, allows};

const EVERYBODY: [Who; 5] = [Who::Queue, Who::Worker, Who::Admin, Who::Timekeeper, Who::Janitor];

/// Every state and every target and everybody.
fn each<S: States>(all: &[S], mut look: impl FnMut(S, S, Who, Dialect)) {
    for dialect in DIALECTS {
        for from in all {
            for to in all {
                for by in EVERYBODY {
                    look(*from, *to, by, dialect);
                }
            }
        }
    }
}

fn moves_are_those_of<S: States>(rows: &[Row], all: &[S]) {
    each(all, |from, to, by, dialect| {
        // To be deleted is not a move between states.
        let wanted = to.name() != "deleted" && allows(rows, from.name(), &by.to_string(), to.name(), dialect);
        let found = from.may_go(to, by, dialect);
        let what = format!("{} {from:?} to {to:?} by the {by} in {dialect:?}", S::THING);
        match found {
            Ok(row) => {
                assert!(wanted, "{what} is allowed");
                assert!(row.from.contains(&from) && row.by == by, "{what} by {row:?}");
            }
            Err(refused) => {
                assert!(!wanted, "{what} is refused: {refused}");
                refusal_is_useful(rows, &refused, from, to.name(), by, dialect);
            }
        }
    });
}

/// It says from where, to where and who, and what is allowed instead.
fn refusal_is_useful<S: States>(
    rows: &[Row],
    refused: &Refused,
    from: S,
    to: &str,
    by: Who,
    dialect: Dialect,
) {
    assert_eq!(
        (refused.thing, refused.from, refused.to.as_str(), refused.by),
        (S::THING, from.name(), to, by)
    );
    let text = refused.to_string();
    for part in [S::THING, from.name(), to, &by.to_string()] {
        assert!(text.contains(part), "{text} does not say {part}");
    }
    let wanted = rows.iter().filter(|row| row.from.split(' ').any(|one| one == from.name()));
    let mut nowhere = true;
    for row in wanted.filter(|row| row.only.is_none_or(|only| only == dialect)) {
        for to in row.to.split(' ') {
            nowhere = false;
            let fits =
                |allowed: &String| allowed.contains(to) && allowed.ends_with(&format!("(by {})", row.by));
            assert!(refused.allowed.iter().any(fits), "{text} does not say {to} by {}", row.by);
        }
    }
    assert_eq!(text.ends_with("nowhere"), nowhere, "{text}");
}

#[test]
fn a_job_may_be_moved_as_the_table_says_and_not_otherwise() {
    moves_are_those_of(JOBS, JobState::ALL);
}

#[test]
fn a_batch_may_be_moved_as_the_table_says_and_not_otherwise() {
    moves_are_those_of(BATCHES, BatchState::ALL);
}

#[test]
fn an_access_item_may_be_moved_as_the_table_says_and_not_otherwise() {
    moves_are_those_of(ACCESS, AccessState::ALL);
}

/// The moves that lead out of the tables.
fn ends_are_those_of<S: States>(rows: &[Row], all: &[S]) {
    let ways_out = [(Why::Delete, "deleted"), (Why::Clean, "cleaned")];
    for dialect in DIALECTS {
        for from in all {
            for by in EVERYBODY {
                let wanted = |to: &str| allows(rows, from.name(), &by.to_string(), to, dialect);
                let found: Vec<_> =
                    ways_out.into_iter().filter_map(|(why, _)| from.may(why, by, dialect).ok()).collect();
                let deleted = found.iter().any(|row| row.to == To::Deleted);
                let cleaned = found.iter().any(|row| row.to == To::Cleaned);
                let what = format!("{} {from:?} by the {by} in {dialect:?}", S::THING);
                assert_eq!((deleted, cleaned), (wanted("deleted"), wanted("cleaned")), "{what}");
                for (why, to) in ways_out {
                    if let Err(refused) = from.may(why, by, dialect) {
                        refusal_is_useful(rows, &refused, *from, to, by, dialect);
                    }
                }
            }
        }
    }
}

#[test]
fn things_are_deleted_and_cleaned_as_the_tables_say_and_not_otherwise() {
    ends_are_those_of(JOBS, JobState::ALL);
    ends_are_those_of(BATCHES, BatchState::ALL);
    ends_are_those_of(ACCESS, AccessState::ALL);
}

#[test]
fn a_refused_kind_of_move_names_where_it_would_have_led() {
    for (why, to) in [
        (Why::Hold, "held"),
        (Why::Release, "pending"),
        (Why::Requeue, "a working state"),
        (Why::StartOver, "downloading"),
        (Why::Success, "the next state"),
    ] {
        let refused = JobState::Completed.may(why, Who::Admin, Dialect::Design).unwrap_err();
        refusal_is_useful(JOBS, &refused, JobState::Completed, to, Who::Admin, Dialect::Design);
    }
}

#[test]
fn success_and_failure_of_a_job_lead_where_the_table_says() {
    for dialect in DIALECTS {
        for state in JobState::ALL {
            let wanted = JOB_ENDS
                .iter()
                .find(|(from, only, ..)| *from == state.name() && only.is_none_or(|only| only == dialect));
            let success = wanted.map(|(.., success, _)| *success);
            assert_eq!(state.success(dialect).map(States::name), success, "{state} in {dialect:?}");
            if let Some((.., failure)) = wanted {
                assert_eq!(
                    state.failure(dialect).map(States::name),
                    Some(*failure),
                    "{state} in {dialect:?}"
                );
            }
        }
    }
}

#[test]
fn the_way_of_a_job_passes_every_state_of_its_dialect_once() {
    let way = |from: JobState, dialect| from.way(dialect).map(States::name).collect::<Vec<_>>().join(" ");
    let design = "pending estimating provisioning downloading processing recording notify completed";
    assert_eq!(way(JobState::Pending, Dialect::Design), design);
    let merritt = "pending estimating provisioning downloading processing storing recording notify completed";
    assert_eq!(way(JobState::Pending, Dialect::MrtZk), merritt);
    assert_eq!(way(JobState::Notify, Dialect::Design), "notify completed");
    for end in [JobState::Failed, JobState::Held] {
        assert_eq!(way(end, Dialect::Design), end.name());
    }
}

#[test]
fn a_failed_job_starts_again_after_the_last_state_that_it_has_finished() {
    for dialect in DIALECTS {
        for (last, _, next) in RESTARTS.iter().filter(|(_, only, _)| only.is_none_or(|only| only == dialect))
        {
            let last = JobState::from_name(last);
            assert_eq!(JobState::restart(last, dialect).name(), *next, "after {last:?} in {dialect:?}");
        }
        for last in JobState::ALL {
            let next = JobState::restart(Some(*last), dialect);
            assert!(
                next.is_working() && JobState::queues(dialect).any(|queue| queue == next),
                "{last}: {next}"
            );
        }
    }
}

fn names_are_read_in_either_case_and_dialect<S>(all: &[S], names: &str)
where
    S: States
        + Debug
        + std::str::FromStr<Err = UnknownState>
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    assert_eq!(all.iter().map(|state| state.name()).collect::<Vec<_>>().join(" "), names);
    for state in all {
        let merritt = state.json_name(Dialect::MrtZk);
        assert_eq!(state.json_name(Dialect::Design), state.name());
        assert_eq!(merritt.to_lowercase(), state.name().replace('-', ""), "the same word");
        assert!(merritt.starts_with(char::is_uppercase) && !merritt.contains('-'), "{merritt}");
        for name in [state.name(), merritt] {
            for spelt in [name.to_owned(), name.to_uppercase(), name.to_lowercase()] {
                assert_eq!(spelt.parse::<S>().as_ref(), Ok(state), "{spelt}");
                let json = serde_json::Value::from(spelt);
                assert_eq!(serde_json::from_value::<S>(json).unwrap(), *state);
            }
        }
        assert_eq!(serde_json::to_value(state).unwrap(), state.name());
    }
    for wrong in ["", "Pend", "pending ", "update_reporting", "nil"] {
        let error = wrong.parse::<S>().unwrap_err();
        assert!(
            error.to_string().contains(&format!("`{wrong}` is not a state of a {}", S::THING)),
            "{error}"
        );
        assert!(all.iter().all(|state| error.to_string().contains(state.name())), "{error}");
    }
}

#[test]
fn names_of_states_are_read_in_either_case_and_dialect() {
    names_are_read_in_either_case_and_dialect(JobState::ALL, tables::JOB_STATES);
    names_are_read_in_either_case_and_dialect(BatchState::ALL, tables::BATCH_STATES);
    names_are_read_in_either_case_and_dialect(AccessState::ALL, tables::ACCESS_STATES);
    assert_eq!(BatchState::UpdateReporting.json_name(Dialect::MrtZk), "UpdateReporting");
}

fn no_state_is_a_trap<S: States>(all: &[S], ends: &[&str]) {
    for dialect in DIALECTS {
        for state in all.iter().filter(|state| !ends.contains(&state.name())) {
            assert!(state.moves(dialect).next().is_some(), "nothing leads out of {state:?} in {dialect:?}");
        }
    }
}

#[test]
fn every_state_that_is_not_the_end_has_a_way_out() {
    no_state_is_a_trap(JobState::ALL, &["deleted"]);
    no_state_is_a_trap(BatchState::ALL, &["deleted"]);
    no_state_is_a_trap(AccessState::ALL, &["deleted"]);
}

/// From the first state every other one can be reached, in the dialect that has it.
fn every_state_is_reached<S: States>(all: &[S], dialect: Dialect, but: &[&str]) {
    let mut reached = vec![all[0]];
    let mut next = 0;
    while let Some(from) = reached.get(next).copied() {
        let more = all.iter().filter(|to| EVERYBODY.iter().any(|by| from.may_go(**to, *by, dialect).is_ok()));
        let more: Vec<S> = more.copied().filter(|to| !reached.contains(to)).collect();
        reached.extend(more);
        next += 1;
    }
    for state in all {
        assert_eq!(reached.contains(state), !but.contains(&state.name()), "{state:?} in {dialect:?}");
    }
}

#[test]
fn every_state_of_a_dialect_can_be_reached() {
    every_state_is_reached(JobState::ALL, Dialect::Design, &["storing", "deleted"]);
    every_state_is_reached(JobState::ALL, Dialect::MrtZk, &["deleted"]);
    for dialect in DIALECTS {
        every_state_is_reached(BatchState::ALL, dialect, &["deleted"]);
        every_state_is_reached(AccessState::ALL, dialect, &["deleted"]);
    }
}

fn pictures_hold_every_row<S: States>(rows: &[Row], all: &[S]) {
    for dialect in DIALECTS {
        let (table, diagram) = (table::<S>(dialect), diagram::<S>(dialect));
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
        let has = |cell: &str, word: &str| cell.split([' ', ',', '/']).any(|one| one == word);
        for row in rows.iter().filter(|row| row.only.is_none_or(|only| only == dialect)) {
            for from in row.from.split(' ') {
                for to in row.to.split(' ') {
                    let holds =
                        |line: &&Vec<&str>| has(line[0], from) && has(line[1], to) && line[2] == row.by;
                    assert!(lines.iter().any(|line| holds(&line)), "{from} to {to} by {}:\n{table}", row.by);
                }
            }
        }
        arrows_are_complete(rows, &diagram, dialect);
        // And nothing else.
        for line in &lines[2..] {
            for from in line[0].split(", ") {
                let fits = |state: &str| allows(rows, from, line[2], state, dialect);
                let known = all.iter().map(|state| state.name()).chain(["cleaned"]);
                assert!(known.into_iter().any(|to| has(line[1], to) && fits(to)), "{line:?} is no row");
            }
        }
        for arrow in diagram.lines().skip(2) {
            let (from, rest) = arrow.trim().split_once(" --> ").unwrap();
            let (to, label) = rest.split_once(": ").unwrap();
            let end = if label.ends_with("(cleaned)") { "cleaned" } else { "deleted" };
            let (from, to) = (from.replace('_', "-"), to.replace('_', "-").replace("[*]", end));
            let by = label.split(" (").next().unwrap();
            let whose = tables::who(rows, &from, &to, dialect);
            assert_eq!(
                by.split(", ").collect::<std::collections::BTreeSet<_>>(),
                whose.into_iter().collect(),
                "{arrow}"
            );
        }
    }
}

/// An arrow for each row; of the many where a failed job may start again the first is enough.
fn arrows_are_complete(rows: &[Row], diagram: &str, dialect: Dialect) {
    for row in rows.iter().filter(|row| row.only.is_none_or(|only| only == dialect)) {
        for from in row.from.split(' ').map(|from| from.replace('-', "_")) {
            for to in row.to.split(' ').map(|to| to.replace('-', "_")) {
                let end = matches!(to.as_str(), "deleted" | "cleaned");
                let arrow = if end { format!("{from} --> [*]: ") } else { format!("{from} --> {to}: ") };
                let holds = |line: &str| {
                    line.trim().starts_with(&arrow) && line.contains(row.by) && (!end || line.contains(&to))
                };
                let is_restart = from == "failed" && !end && diagram.contains("(or another working state)");
                assert!(
                    is_restart || diagram.lines().any(holds),
                    "{arrow} by {} is not in\n{diagram}",
                    row.by
                );
            }
        }
    }
}

#[test]
fn the_table_and_the_diagram_for_people_hold_every_row_and_no_other() {
    pictures_hold_every_row(JOBS, JobState::ALL);
    pictures_hold_every_row(BATCHES, BatchState::ALL);
    pictures_hold_every_row(ACCESS, AccessState::ALL);
}

fn pictures_show_every_state<S: States>(all: &[S]) {
    let (table, diagram) = (table::<S>(Dialect::MrtZk), diagram::<S>(Dialect::MrtZk));
    for name in all.iter().map(|state| state.name()) {
        assert!(table.contains(name), "{name} is not in\n{table}");
        assert!(diagram.contains(&name.replace('-', "_")), "{name} is not in\n{diagram}");
    }
    assert!(diagram.starts_with("stateDiagram-v2\n    [*] --> pending\n"), "{diagram}");
}

#[test]
fn every_state_is_in_the_pictures() {
    pictures_show_every_state(JobState::ALL);
    pictures_show_every_state(BatchState::ALL);
    pictures_show_every_state(AccessState::ALL);
}
