//! Who asks, and whether they may.
//!
//! A handler says whom it is for by the type of its argument: [`Depositor`], [`Operator`], [`Admin`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use ingest_actors::actions::Order;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::problem::{Answer, Kind, Refusal};
use super::settings::ApiSettings;
use super::wire::Role;

/// Says who it is, where nobody has a token.
const USER: &str = "x-ingestd-user";
const LOCAL: &str = "local";

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

/// Somebody.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub name: String,
    pub role: Role,
    /// A token says who it is. Without tokens anybody can call themselves anything.
    pub has_token: bool,
    pub from: IpAddr,
    pub ordered: Ordered,
}

/// What somebody has ordered by one request, for the audit log. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ordered(Arc<Mutex<Vec<String>>>);

impl Ordered {
    pub(crate) fn add(&self, order: &Order) {
        self.0.lock().push(order.told());
    }

    /// In a line: most requests order one thing, if any.
    pub(crate) fn told(&self) -> String {
        self.0.lock().join("; ")
    }
}

/// What is known of a request's caller.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    Caller(Caller),
    /// No token at all.
    Nobody,
    /// A token that nobody has.
    Stranger,
}

/// Finds out who asks. Every token is compared, and each in constant time.
pub(crate) fn find(settings: &ApiSettings, headers: &HeaderMap, from: IpAddr) -> Known {
    if settings.tokens.is_empty() {
        let name = headers.get(USER).and_then(|name| name.to_str().ok()).map(str::trim);
        let fits = |name: &&str| !name.is_empty() && name.len() <= 64 && !name.chars().any(char::is_control);
        let name = name.filter(fits).unwrap_or(LOCAL).to_owned();
        let ordered = Ordered::default();
        return Known::Caller(Caller { name, role: Role::Admin, has_token: false, from, ordered });
    }
    let Some(given) = headers.get(AUTHORIZATION) else { return Known::Nobody };
    let text = given.to_str().unwrap_or_default();
    let token = match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => return Known::Stranger,
    };
    let digest = Sha256::digest(token.as_bytes());
    let mut found = None;
    for known in &settings.tokens {
        if same(&known.sha256, &digest) {
            found = Some(known);
        }
    }
    found.map_or(Known::Stranger, |known| {
        let (name, ordered) = (known.name.clone(), Ordered::default());
        Known::Caller(Caller { name, role: known.role, has_token: true, from, ordered })
    })
}

/// Whether two digests are the same, in a time that does not depend on where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differ) == 0
}

impl Caller {
    /// Whether it may do what this role may.
    pub(crate) fn must_be(&self, role: Role) -> Answer<()> {
        if self.role >= role {
            return Ok(());
        }
        let (has, wants) = (self.role.name(), role.name());
        Err(Refusal::new(Kind::FORBIDDEN, format!("{} is {has}, and this is for {wants}", self.name)))
    }

    /// In whose name something must have been submitted for this caller to see it; `None`: in anybody's.
    pub(crate) fn only(&self) -> Option<&str> {
        (self.role == Role::Depositor).then_some(self.name.as_str())
    }

    /// What belongs to others is not there.
    pub(crate) fn must_see(&self, submitter: &str, what: impl std::fmt::Display) -> Answer<()> {
        match self.only() {
            Some(only) if only != submitter => Err(Refusal::not_found(what)),
            _ => Ok(()),
        }
    }
}

macro_rules! roles {
    ($($name:ident = $role:expr;)+) => {
        $(
            /// Somebody who is this at least.
            #[derive(Debug, Clone)]
            pub(crate) struct $name(pub Caller);

            impl<S: Send + Sync> FromRequestParts<S> for $name {
                type Rejection = Refusal;

                async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
                    caller(parts, $role).map(Self)
                }
            }
        )+
    };
}

roles! {
    Depositor = Role::Depositor;
    Operator = Role::Operator;
    Admin = Role::Admin;
}

fn caller(parts: &Parts, role: Role) -> Answer<Caller> {
    match parts.extensions.get::<Known>() {
        Some(Known::Caller(caller)) => caller.must_be(role).map(|()| caller.clone()),
        Some(Known::Stranger) => Err(Refusal::new(Kind::UNAUTHORIZED, "nobody has this token")),
        Some(Known::Nobody) | None => {
            Err(Refusal::new(Kind::UNAUTHORIZED, "send `Authorization: Bearer TOKEN`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(tokens: &[(&str, Role)]) -> ApiSettings {
        let tokens = tokens.iter().map(|(name, role)| super::super::settings::Token {
            name: (*name).to_owned(),
            role: *role,
            sha256: Sha256::digest(format!("secret-{name}")).into(),
        });
        ApiSettings { tokens: tokens.collect(), ..ApiSettings::default() }
    }

    fn asked(settings: &ApiSettings, header: Option<(&'static str, &str)>) -> Known {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(name, value.parse().unwrap());
        }
        find(settings, &headers, [127, 0, 0, 1].into())
    }

    fn name(known: &Known) -> Option<(&str, Role)> {
        match known {
            Known::Caller(caller) => Some((caller.name.as_str(), caller.role)),
            _ => None,
        }
    }

    #[test]
    fn a_token_tells_who_it_is_and_nothing_else_does() {
        let settings = settings(&[("ann", Role::Operator), ("bob", Role::Depositor)]);
        let ann = asked(&settings, Some(("authorization", "bearer secret-ann")));
        assert_eq!(name(&ann), Some(("ann", Role::Operator)));
        assert!(matches!(asked(&settings, None), Known::Nobody));
        assert!(matches!(asked(&settings, Some((USER, "ann"))), Known::Nobody));
        for wrong in ["Bearer secret-anna", "Bearer ", "Basic secret-ann", "secret-ann", "Bearer"] {
            assert!(matches!(asked(&settings, Some(("authorization", wrong))), Known::Stranger), "{wrong}");
        }
    }

    #[test]
    fn without_tokens_people_say_who_they_are() {
        let settings = settings(&[]);
        assert_eq!(name(&asked(&settings, None)), Some(("local", Role::Admin)));
        assert_eq!(name(&asked(&settings, Some((USER, "ann")))), Some(("ann", Role::Admin)));
        assert_eq!(name(&asked(&settings, Some((USER, &"x".repeat(65))))), Some(("local", Role::Admin)));
    }

    #[test]
    fn each_role_may_what_those_before_it_may() {
        let caller = |role| Caller {
            name: "ann".into(),
            role,
            has_token: true,
            from: [127, 0, 0, 1].into(),
            ordered: Ordered::default(),
        };
        assert!(caller(Role::Admin).must_be(Role::Depositor).is_ok());
        assert!(caller(Role::Operator).must_be(Role::Admin).is_err());
        assert!(caller(Role::Depositor).must_see("bob", "batch").is_err());
        assert!(caller(Role::Depositor).must_see("ann", "batch").is_ok());
        assert!(caller(Role::Operator).must_see("bob", "batch").is_ok());
    }
}
