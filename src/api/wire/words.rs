//! Texts that are not any text, as the document describes them. What is allowed comes from the tables that decide it.

use ingest_queue::limits::rules::Kind as LimitKind;
use ingest_queue::map::AccessSize;
use ingest_queue::states::{AccessState, BatchState, JobState, States};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

macro_rules! words {
    ($($name:ident: $schema:expr;)+) => {
        $(
            #[derive(Debug)]
            #[allow(dead_code, reason = "only its schema is used")]
            pub(crate) struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    $schema.into()
                }
            }

            impl ToSchema for $name {}
        )+
    };
}

words! {
    JobStateWord: one_of(names::<JobState>());
    BatchStateWord: one_of(names::<BatchState>());
    AccessStateWord: one_of(names::<AccessState>());
    AccessSizeWord: one_of(AccessSize::ALL.map(AccessSize::name));
    JobStates: several(&names::<JobState>());
    BatchStates: several(&names::<BatchState>());
    AccessStates: several(&names::<AccessState>());
    BidWord: like("^bid[01][0-9]{9}$");
    JidWord: like("^jid[01][0-9]{9}$");
    AidWord: like("^qid[01][0-9]{9}$");
    DateWord: date();
    ArkWord: like("^ark:/[0-9]{5}/[0-9a-z]{1,60}$").description(Some("Also without the slash, and with hyphens: they make no difference."));
    DurationWord: like("^[1-9][0-9]{0,4}(ms|s|m|h|d)$").description(Some("Also several of them, such as `1h 30m`."));
    PriorityWord: OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(99)))
        .item(one_of(classes()));
    // In a query, where an empty value is none.
    BidText: like("^(bid[01][0-9]{9})?$");
    JidText: like("^(jid[01][0-9]{9})?$");
    LimitKindText: like(&format!("^({})?$", LimitKind::ALL.map(LimitKind::name).join("|")));
    LogPlaceText: like(r"^(-?[0-9]{1,15}\.[0-9]{1,6}\.([0-9a-f]{2}){0,200})?$");
    AidText: like("^(qid[01][0-9]{9})?$");
    AccessPlaceText: like("^((small|large)-qid[01][0-9]{9})?$");
    DateText: OneOfBuilder::new().item(date()).item(text().max_length(Some(0)));
    PriorityText: like(&format!("^([0-9]|[1-9][0-9]|{})?$", classes().join("|")));
    AccessForm: one_of(["zip", "bag"]);
    ReportForm: one_of(["json", "csv", "text"]);
    GroupWord: like("^g1-[0-9a-f]{16}$");
    GroupText: like("^(g1-[0-9a-f]{16})?$");
    BulkId: like("^[A-Za-z0-9._-]{1,64}$");
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn date() -> ObjectBuilder {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}

fn like(pattern: &str) -> ObjectBuilder {
    text().pattern(Some(pattern))
}

fn one_of<T: Into<serde_json::Value>>(names: impl IntoIterator<Item = T>) -> ObjectBuilder {
    text().enum_values(Some(names))
}

/// None, or some, apart by commas.
fn several(names: &[&str]) -> ObjectBuilder {
    let any = names.join("|");
    like(&format!("^(({any})(,({any}))*)?$"))
}

fn names<S: States + 'static>() -> Vec<&'static str> {
    S::NAMES.iter().map(|(_, name, _)| *name).collect()
}

/// Those of the configuration: they are plain words.
fn classes() -> Vec<String> {
    ingest_queue::classes::all().into_iter().map(|class| class.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_comes_from_the_tables() {
        let schema = |schema: RefOr<Schema>| serde_json::to_value(schema).unwrap();
        let states = schema(JobStateWord::schema());
        assert_eq!(states["enum"].as_array().unwrap().len(), JobState::ALL.len(), "{states}");
        assert!(schema(PriorityText::schema())["pattern"].as_str().unwrap().contains("|time-allows)?$"));
        assert_eq!(schema(DateWord::schema())["format"], "date-time");
        assert_eq!(
            schema(AccessStates::schema())["pattern"].as_str().unwrap().matches('|').count(),
            2 * (AccessState::ALL.len() - 1)
        );
    }
}
