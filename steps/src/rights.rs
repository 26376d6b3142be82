//! Who may write to which object. The rule is [`decide`], and nothing else decides.
//!
//! | the submitter may use the profile | the object with that identifier | how the identifier was found | it may write |
//! |---|---|---|---|
//! | no | any | any | no ([`Denied::Profile`]) |
//! | yes | none is recorded | minted, or by a local id of the owner | yes: a new object |
//! | yes | none is recorded | given, on one of the profile's `ark_prefixes` | yes: a new object |
//! | yes | none is recorded | given, elsewhere | no ([`Denied::Object`]) |
//! | yes | of another owner | any | no ([`Denied::Object`]) |
//! | yes | of the owner, in the profile's collection | any | yes |
//! | yes | of the owner, in another collection that no profile describes any more | any | yes: it moves to the profile's collection |
//! | yes | of the owner, in another collection, and the submitter may use a profile of that | any | yes: it moves to the profile's collection |
//! | yes | of the owner, in another collection, and the submitter may use no profile of that | any | no ([`Denied::Object`]) |
//!
//! A profile without `submitters` may be used by everybody who may submit at all.
//!
//! What is said of [`Denied::Object`] is the same for an object of somebody else and for one that does not exist: it
//! holds nothing but what was submitted.

use crate::ark::Ark;
use crate::outcome::Failure;
use crate::profile::{Profile, Profiles};

/// What is recorded of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Existing<'a> {
    pub owner: &'a str,
    pub collection: &'a str,
}

/// How an identifier was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Minted,
    /// A local id of the submission's owner leads to it.
    ByLocalId,
    /// The submission gives it.
    Given {
        /// The profile lets its submitters give such identifiers to new objects.
        may_be_new: bool,
    },
}

/// For whom a profile is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant<'a> {
    pub owner: &'a str,
    pub collection: &'a str,
    /// None: everybody.
    pub submitters: &'a [String],
}

/// Who submits, with which profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission<'a> {
    pub submitter: &'a str,
    pub profile: Grant<'a>,
    pub found: Found,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    Denied(Denied),
}

/// Why something may not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The submitter may not use the profile.
    Profile,
    /// There is no such object, or it is not for this submission.
    Object,
}

impl<'a> Grant<'a> {
    pub fn of(profile: &'a Profile) -> Self {
        Self { owner: &profile.owner, collection: &profile.collection, submitters: &profile.submitters }
    }

    pub fn admits(&self, submitter: &str) -> bool {
        self.submitters.is_empty() || self.submitters.iter().any(|known| known == submitter)
    }
}

/// The table above. `grants` are those of all profiles.
pub fn decide(existing: Option<Existing<'_>>, submission: &Submission<'_>, grants: &[Grant<'_>]) -> Decision {
    let Submission { submitter, profile, found } = submission;
    if !profile.admits(submitter) {
        return Decision::Denied(Denied::Profile);
    }
    let allowed = match existing {
        None => !matches!(found, Found::Given { may_be_new: false }),
        Some(object) if object.owner != profile.owner => false,
        Some(object) if object.collection == profile.collection => true,
        Some(object) => {
            let describes =
                |grant: &&Grant<'_>| grant.owner == object.owner && grant.collection == object.collection;
            let mut of_its_collection = grants.iter().filter(describes).peekable();
            of_its_collection.peek().is_none() || of_its_collection.any(|grant| grant.admits(submitter))
        }
    };
    if allowed { Decision::Allowed } else { Decision::Denied(Denied::Object) }
}

/// Whether a submitter may deposit with a profile at all.
pub fn may_use(profile: &Profile, submitter: &str) -> Result<(), String> {
    if Grant::of(profile).admits(submitter) { Ok(()) } else { Err(no_profile(&profile.name, submitter)) }
}

fn no_profile(profile: &str, submitter: &str) -> String {
    format!("`{}` may not use the profile `{profile}` (`submitters`)", submitter.escape_debug())
}

fn no_object(ark: &Ark, profile: &str) -> String {
    format!(
        "no object {ark} can be added to with the profile `{profile}`: correct the primary identifier, or leave it out \
         to make a new object"
    )
}

/// [`decide`] with a profile and all others, as a failure of the job or the submission.
pub fn permit(
    existing: Option<Existing<'_>>,
    ark: &Ark,
    found: Found,
    submitter: &str,
    profile: &Profile,
    all: &Profiles,
) -> Result<(), Failure> {
    let grants: Vec<Grant<'_>> = all.iter().map(Grant::of).collect();
    let submission = Submission { submitter, profile: Grant::of(profile), found };
    match decide(existing, &submission, &grants) {
        Decision::Allowed => Ok(()),
        Decision::Denied(Denied::Profile) => Err(Failure::hopeless(no_profile(&profile.name, submitter))),
        Decision::Denied(Denied::Object) => {
            let owner = existing.map(|object| object.owner);
            // The log knows more than whoever submitted.
            tracing::warn!(%ark, profile = profile.name, submitter, owner, "refused: the submission has no right to this object");
            Err(refused(ark, profile))
        }
    }
}

/// What is said of an object that may not be written to, whether there is one or not.
pub fn refused(ark: &Ark, profile: &Profile) -> Failure {
    Failure::hopeless(no_object(ark, &profile.name))
}

/// How a given identifier counts for a profile.
pub fn given(ark: &Ark, profile: &Profile) -> Found {
    Found::Given { may_be_new: profile.ark_prefixes.iter().any(|prefix| ark.is_on(prefix)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIVEN: Found = Found::Given { may_be_new: false };
    const OWN_PREFIX: Found = Found::Given { may_be_new: true };
    const DENIED: Decision = Decision::Denied(Denied::Object);

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_table_by_examples() {
        let (ann, everybody) = (names(&["ann"]), names(&[]));
        let maps = Grant { owner: "library", collection: "maps", submitters: &ann };
        let herbs = Grant { owner: "library", collection: "herbs", submitters: &everybody };
        let museum = Grant { owner: "museum", collection: "maps", submitters: &everybody };
        let grants = [maps, herbs, museum];
        let object = |owner, collection| Some(Existing { owner, collection });
        for (what, existing, submitter, profile, found, expected) in [
            ("not admitted", None, "bob", maps, Found::Minted, Decision::Denied(Denied::Profile)),
            ("a new object", None, "ann", maps, Found::Minted, Decision::Allowed),
            ("a new object by a local id", None, "ann", maps, Found::ByLocalId, Decision::Allowed),
            ("a given name that nobody has", None, "ann", maps, GIVEN, DENIED),
            ("the same on an own prefix", None, "ann", maps, OWN_PREFIX, Decision::Allowed),
            ("a foreign object", object("museum", "maps"), "ann", maps, GIVEN, DENIED),
            ("a foreign object on an own prefix", object("museum", "maps"), "ann", maps, OWN_PREFIX, DENIED),
            ("an own object", object("library", "maps"), "ann", maps, GIVEN, Decision::Allowed),
            ("to a collection of all", object("library", "maps"), "ann", herbs, GIVEN, Decision::Allowed),
            ("out of a closed collection", object("library", "maps"), "bob", herbs, GIVEN, DENIED),
            ("the same by a local id", object("library", "maps"), "bob", herbs, Found::ByLocalId, DENIED),
            ("of a collection of the past", object("library", "x"), "bob", herbs, GIVEN, Decision::Allowed),
        ] {
            let submission = Submission { submitter, profile, found };
            assert_eq!(decide(existing, &submission, &grants), expected, "{what}");
        }
    }

    prop_compose! {
        fn any_grant()(owner in "[ab]", collection in "[xyz]", submitters in prop::collection::vec("[mn]", 0..3))
            -> (String, String, Vec<String>) { (owner, collection, submitters) }
    }

    fn any_found() -> impl Strategy<Value = Found> {
        prop_oneof![
            Just(Found::Minted),
            Just(Found::ByLocalId),
            any::<bool>().prop_map(|may_be_new| Found::Given { may_be_new }),
        ]
    }

    proptest! {
        /// Row by row, as the table says it.
        #[test]
        fn the_decision_is_that_of_the_table(
            others in prop::collection::vec(any_grant(), 0..5),
            own in any_grant(),
            object in prop::option::of(("[ab]", "[xyz]")),
            submitter in "[mn]",
            found in any_found(),
        ) {
            fn grant((owner, collection, submitters): &(String, String, Vec<String>)) -> Grant<'_> {
                Grant { owner, collection, submitters }
            }
            let profile = grant(&own);
            let grants: Vec<_> = others.iter().map(grant).chain([profile]).collect();
            let existing = object.as_ref().map(|(owner, collection)| Existing { owner, collection });
            let submission = Submission { submitter: &submitter, profile, found };
            let decision = decide(existing, &submission, &grants);

            let admitted = own.2.is_empty() || own.2.contains(&submitter);
            let row = match &object {
                _ if !admitted => Decision::Denied(Denied::Profile),
                None if found == GIVEN => DENIED,
                None => Decision::Allowed,
                Some((owner, _)) if *owner != own.0 => DENIED,
                Some((_, collection)) if *collection == own.1 => Decision::Allowed,
                Some(of) => {
                    let its = || others.iter().filter(|other| (&other.0, &other.1) == (&of.0, &of.1));
                    let open = its().any(|other| other.2.is_empty() || other.2.contains(&submitter));
                    if open || its().count() == 0 { Decision::Allowed } else { DENIED }
                }
            };
            prop_assert_eq!(decision, row);
        }

        /// Nobody learns by a refusal whether somebody else has such an object.
        #[test]
        fn a_foreign_object_and_none_are_refused_alike(owner in "[a-z]{1,8}", collection in "[a-z]{1,8}", add in any::<bool>()) {
            let mut profile = crate::profile::Profile::parse(
                std::path::Path::new("p.toml"),
                "name = 'p'\ncollection = 'c'\ntitle = 't'\nowner = 'OWN'",
            ).unwrap();
            profile.ark_prefixes = names(&["ark:/99999/own"]);
            let ark: Ark = "ark:/99999/fk4x".parse().unwrap();
            let found = if add { given(&ark, &profile) } else { GIVEN };
            let ask = |existing| permit(existing, &ark, found, "ann", &profile, &Profiles::default());
            let foreign = ask(Some(Existing { owner: &owner, collection: &collection })).unwrap_err();
            prop_assert_eq!(foreign, ask(None).unwrap_err());
        }
    }
}
