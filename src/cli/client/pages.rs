//! Lists: all pages, one after the other.

use anyhow::Result;
use serde::de::DeserializeOwned;

use super::{Ask, Client};

/// The most that the node gives at once.
const PAGE: usize = 1000;

/// How much of a list is wanted.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Limit {
    /// No more than so many; otherwise all
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl Limit {
    pub(crate) fn get(self) -> usize {
        self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }
}

/// A page of a list.
pub(crate) trait Page: DeserializeOwned {
    /// Where the next begins.
    fn next(&self) -> Option<&str>;
    /// How many lines it has.
    fn count(&self) -> usize;
    /// Puts the next page behind this one.
    fn append(&mut self, next: Self);
    /// Forgets what is too much.
    fn truncate(&mut self, count: usize);
}

impl Client {
    /// The whole list as one page, or as much as is wanted of it. `seen` is told how many there are so far.
    pub(crate) async fn all<P: Page>(
        &self,
        ask: Ask,
        limit: Limit,
        mut seen: impl FnMut(usize),
    ) -> Result<P> {
        let wanted = limit.get();
        let page = |after: Option<String>, missing: usize| {
            ask.clone().with("limit", Some(missing.min(PAGE))).with("after", after)
        };
        let mut all: P = self.send(page(None, wanted)).await?;
        while let Some(next) = all.next().filter(|_| all.count() < wanted).map(str::to_owned) {
            seen(all.count());
            let missing = wanted - all.count();
            all.append(self.send(page(Some(next), missing)).await?);
        }
        all.truncate(wanted);
        Ok(all)
    }
}

/// What besides its lines a page has is either gathered from all of them, or taken from the last.
macro_rules! page {
    ($page:ident: $lines:ident $(, all $more:ident)* $(, last $last:ident)*) => {
        impl Page for crate::api::wire::$page {
            fn next(&self) -> Option<&str> {
                self.next.as_deref()
            }

            fn count(&self) -> usize {
                self.$lines.len()
            }

            fn append(&mut self, next: Self) {
                self.$lines.extend(next.$lines);
                self.next = next.next;
                $(self.$more.extend(next.$more);)*
                $(self.$last = next.$last;)*
            }

            fn truncate(&mut self, count: usize) {
                self.$lines.truncate(count);
            }
        }
    };
}

page!(AccessPage: items, all unreadable, last left);
page!(AuditPage: entries);
page!(BatchPage: batches, all unreadable, last left);
page!(FeedPage: feeds, last workers);
page!(JobPage: jobs, all unreadable, last left);
page!(LimitPage: limits, last defaults);
page!(RequestPage: requests);
page!(RestartPage: restarts, all missing);
