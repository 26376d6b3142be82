//! Named classes of priorities, as the configuration has them.
//!
//! The names are known to the whole process: whatever reads a priority (the API, a profile, a submission) understands
//! them, and whatever shows one can name it. Names that a node does not know are refused with those that it does. The
//! class `slow` is also the line from which on a job runs only when nothing before it waits.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::RwLock;
use serde::{Deserialize, Deserializer, Serialize};

use crate::map::Priority;

/// The class that draws the line.
const SLOW: &str = "slow";

static CLASSES: RwLock<Option<Vec<Class>>> = RwLock::new(None);
static LINE: AtomicU8 = AtomicU8::new(Priority::SLOW.number());

/// A priority with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    pub name: String,
    pub priority: u8,
}

/// Those that there are if the configuration says nothing.
pub fn defaults() -> Vec<Class> {
    Priority::CLASSES
        .iter()
        .map(|(name, priority)| Class { name: (*name).to_owned(), priority: priority.number() })
        .collect()
}

/// Those that hold in this process.
pub fn all() -> Vec<Class> {
    CLASSES.read().clone().unwrap_or_else(defaults)
}

/// From now on these hold.
pub fn hold(classes: &[Class]) {
    let line = classes
        .iter()
        .find(|class| class.name == SLOW)
        .map_or(Priority::SLOW.number(), |class| class.priority);
    LINE.store(line, Ordering::Relaxed);
    *CLASSES.write() = Some(classes.to_vec());
}

/// From here on a job runs only when nothing before it waits.
pub fn line() -> Priority {
    Priority::nearest(LINE.load(Ordering::Relaxed).into())
}

/// The priority of that name.
pub fn named(classes: &[Class], name: &str) -> Option<Priority> {
    let class = classes.iter().find(|class| class.name.eq_ignore_ascii_case(name))?;
    Some(Priority::nearest(class.priority.into()))
}

/// The name of a priority, if it has one.
pub fn name_of(priority: u8) -> Option<String> {
    all().into_iter().find(|class| class.priority == priority).map(|class| class.name)
}

/// A list of classes that makes sense: for a section of the configuration.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Class>, D::Error> {
    let classes = Vec::<Class>::deserialize(from)?;
    match fault(&classes) {
        Some(why) => Err(serde::de::Error::custom(why)),
        None => Ok(classes),
    }
}

fn fault(classes: &[Class]) -> Option<String> {
    for (at, class) in classes.iter().enumerate() {
        let Class { name, priority } = class;
        let plain = |c: char| c.is_ascii_lowercase() || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Some(format!("`{name}` is not a name of a class: it has lower-case letters and `-`"));
        }
        if *priority > Priority::LAST.number() {
            return Some(format!("the class {name} has priority {priority}, and 99 is the last"));
        }
        if classes[..at].iter().any(|other| other.name == *name) {
            return Some(format!("the class {name} is there twice"));
        }
    }
    (!classes.iter().any(|class| class.name == SLOW)).then(|| {
        "there is no class `slow`: it says from where on jobs run only when nothing else waits".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, priority: u8) -> Class {
        Class { name: name.into(), priority }
    }

    #[test]
    fn a_class_is_found_by_its_name_in_either_case() {
        let classes = [class("urgent", 3), class("slow", 60)];
        assert_eq!(named(&classes, "Urgent"), Priority::new(3));
        assert_eq!(named(&classes, "now"), None, "only those that are configured");
    }

    #[test]
    fn a_list_that_makes_no_sense_is_refused() {
        for (wrong, why) in [
            (vec![class("slow", 80), class("slow", 81)], "twice"),
            (vec![class("slow", 100)], "99 is the last"),
            (vec![class("", 1)], "not a name"),
            (vec![class("7", 1)], "not a name"),
            (vec![class("now", 0)], "no class `slow`"),
        ] {
            assert!(fault(&wrong).is_some_and(|text| text.contains(why)), "{why}");
        }
        assert_eq!(fault(&defaults()), None);
    }

    #[test]
    fn the_defaults_are_the_eight_of_the_design() {
        let names: Vec<(String, u8)> =
            defaults().into_iter().map(|class| (class.name, class.priority)).collect();
        let expected = [
            ("now", 0),
            ("important", 10),
            ("new", 20),
            ("reset", 50),
            ("updates", 70),
            ("slow", 80),
            ("review", 90),
            ("time-allows", 99),
        ];
        assert_eq!(names, expected.map(|(name, number)| (name.to_owned(), number)));
    }
}
