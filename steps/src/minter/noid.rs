//! Templates of names, as NOID writes them: `13030/c7.reedeedk`.
//!
//! Before the dot stand the NAAN and the shoulder. After it, first how numbers become names: `r` in an order
//! that looks random, `s` one after the other, `z` one after the other and longer when all are used. Then a
//! mask of `d` (a digit) and `e` (an extended digit), and `k` at the end for the check character.
//!
//! A template is a function and nothing else: [`Template::name`] gives the same name for the same number, and
//! different names for different numbers. Who counts the numbers is another matter.
//!
//! **When things break.** A number beyond the last name gives none: the shoulder is used up.

use std::fmt;
use std::str::FromStr;

use crate::ark::{Ark, EXTENDED_DIGITS, NotAnArk, check_character};

/// How numbers become names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// A fixed permutation of all names.
    Random,
    Sequential,
    /// Sequential; the first place of the mask is repeated when all names are used.
    Growing,
}

/// A template that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    naan: String,
    shoulder: String,
    order: Order,
    /// How many values each place has, 10 or 29, from the left.
    places: Vec<u64>,
    /// How many names there are before they grow.
    capacity: u64,
    checked: bool,
}

/// Why something is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no template of names: {why}; write it as NAAN/SHOULDER.MASK, for example 13030/c7.reedeedk"
)]
pub struct NotATemplate {
    text: String,
    why: String,
}

impl Template {
    /// `NAAN/SHOULDER`, where all its names begin.
    pub fn shoulder(&self) -> String {
        format!("{}/{}", self.naan, self.shoulder)
    }

    /// How many names it has; `None` if they grow without end.
    pub fn capacity(&self) -> Option<u64> {
        (self.order != Order::Growing).then_some(self.capacity)
    }

    /// The name of this number, the first being 0; `None` if there are not that many.
    pub fn name(&self, number: u64) -> Option<Ark> {
        let number = match self.order {
            Order::Growing => number,
            _ if number >= self.capacity => return None,
            Order::Sequential => number,
            Order::Random => self.permuted(number),
        };
        let mut name = format!("{}{}", self.shoulder, self.digits(number));
        if self.checked {
            name.push(check_character(&format!("{}/{name}", self.naan)));
        }
        Ark::new(&self.naan, &name).ok()
    }

    fn digits(&self, mut number: u64) -> String {
        let mut digits = Vec::with_capacity(self.places.len());
        for values in self.places.iter().rev() {
            digits.push(digit(number % values));
            number /= values;
        }
        // What is left is there only if the names grow. Counting on from the first place alone would give a
        // name of fewer digits again, so the longer ones begin with 1 and not with 0.
        let first = self.places.first().copied().unwrap_or(10);
        while number > 0 {
            digits.push(digit(number % first));
            number /= first;
        }
        digits.iter().rev().collect()
    }

    /// A step that shares no divisor with the capacity visits every number once.
    fn permuted(&self, number: u64) -> u64 {
        let capacity = u128::from(self.capacity);
        // About the golden section: neighbours come out far apart.
        let mut step = (capacity * 618 / 1000).max(1);
        while divisor(step, capacity) != 1 {
            step += 1;
        }
        let place = (u128::from(number) * step + capacity / 3) % capacity;
        // Smaller than the capacity, which came from a u64.
        u64::try_from(place).unwrap_or(number)
    }
}

fn digit(value: u64) -> char {
    usize::try_from(value).ok().and_then(|at| EXTENDED_DIGITS.get(at)).map_or('0', |digit| char::from(*digit))
}

fn divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { divisor(b, a % b) }
}

impl FromStr for Template {
    type Err = NotATemplate;

    fn from_str(text: &str) -> Result<Self, NotATemplate> {
        let shown: String = text.chars().take(80).collect();
        let refuse = |why: String| NotATemplate { text: shown.clone(), why };
        let (prefix, mask) = text.split_once('.').ok_or_else(|| refuse("it has no dot".into()))?;
        let (naan, shoulder) = prefix.split_once('/').unwrap_or((prefix, ""));
        if let Some(bad) = shoulder.chars().find(|c| !c.is_ascii_lowercase() && !c.is_ascii_digit()) {
            return Err(refuse(format!("{bad:?} has no place in a shoulder")));
        }
        let mut kinds = mask.chars();
        let order = match kinds.next() {
            Some('r') => Order::Random,
            Some('s') => Order::Sequential,
            Some('z') => Order::Growing,
            _ => return Err(refuse("the mask does not begin with r, s or z".into())),
        };
        let (kinds, checked) = match kinds.as_str().strip_suffix('k') {
            Some(kinds) => (kinds, true),
            None => (kinds.as_str(), false),
        };
        let mut capacity = 1_u64;
        let mut places = Vec::new();
        for kind in kinds.chars() {
            let values = match kind {
                'd' => 10,
                'e' => 29,
                other => return Err(refuse(format!("{other:?} in the mask is neither d nor e"))),
            };
            capacity = capacity
                .checked_mul(values)
                .ok_or_else(|| refuse("the mask is longer than numbers can be counted".into()))?;
            places.push(values);
        }
        if places.is_empty() {
            return Err(refuse("the mask has no d and no e".into()));
        }
        let template = Self {
            text: text.to_owned(),
            naan: naan.to_ascii_lowercase(),
            shoulder: shoulder.to_owned(),
            order,
            places,
            capacity,
            checked,
        };
        // The NAAN is judged where names are.
        let first = Ark::new(naan, &format!("{shoulder}0"));
        first.map_err(|error: NotAnArk| refuse(error.to_string()))?;
        Ok(template)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn template(text: &str) -> Template {
        text.parse().unwrap()
    }

    fn names(text: &str, numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
        numbers.into_iter().map(|number| template(text).name(number).unwrap().to_string()).collect()
    }

    #[test]
    fn sequential_names_count_in_their_mask() {
        assert_eq!(
            names("13030/c7.sde", [0, 1, 28, 29, 289]),
            ["ark:/13030/c700", "ark:/13030/c701", "ark:/13030/c70z", "ark:/13030/c710", "ark:/13030/c79z"]
        );
        assert_eq!(template("13030/c7.sde").name(290), None);
    }

    #[test]
    fn a_growing_template_goes_on_with_longer_names() {
        let numbers = [9, 10, 99, 100, 1000];
        let found = names("13030/.zd", numbers);
        assert_eq!(
            found,
            ["ark:/13030/9", "ark:/13030/10", "ark:/13030/99", "ark:/13030/100", "ark:/13030/1000"]
        );
        assert!(template("13030/.zeek").name(u64::MAX).unwrap().is_checked());
    }

    #[test]
    fn the_same_number_never_gives_two_names_and_two_numbers_never_one() {
        for text in ["13030/c7.redek", "13030/c7.sdek", "13030/c7.zdk", "b5060/.rddd", "13030/x.rdk"] {
            let template = template(text);
            let count = template.capacity().unwrap_or(5_000);
            let all: HashSet<_> = (0..count).map(|number| template.name(number).unwrap()).collect();
            assert_eq!(all.len() as u64, count, "{text}");
            assert_eq!(template.name(7), template.name(7));
        }
    }

    #[test]
    fn names_with_k_end_with_their_check_character() {
        let template = template("13030/m5.reedeedk");
        for number in 0..500 {
            let ark = template.name(number).unwrap();
            assert!(ark.is_checked() && ark.is_on("ark:/13030/m5") && ark.name().len() == 9, "{ark}");
        }
    }

    #[test]
    fn a_random_order_does_not_show_the_count() {
        let found = names("13030/c7.reeee", 0..100);
        assert!(found.windows(2).all(|pair| pair[0][..15] != pair[1][..15]), "{found:?}");
    }

    #[test]
    fn what_is_no_template_is_refused_with_the_reason() {
        for (text, why) in [
            ("13030/c7", "no dot"),
            ("13030/c7.", "begin with r, s or z"),
            ("13030/c7.eek", "begin with r, s or z"),
            ("13030/c7.rk", "no d and no e"),
            ("13030/c7.rexk", "'x' in the mask"),
            ("13030/c7.reke", "'k' in the mask"),
            ("13030/C7.reek", "'C' has no place"),
            ("130/c7.reek", "the NAAN `130`"),
            (".reek", "the NAAN ``"),
            ("13030/c7.reeeeeeeeeeeeeeeeee", "longer than numbers"),
        ] {
            let error = text.parse::<Template>().expect_err(text).to_string();
            assert!(error.contains(why) && error.contains("13030/c7.reedeedk"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_and_no_number_makes_it_panic(text in "([0-9]{5}/)?[a-z]{0,3}\\.?\\PC{0,10}", number: u64) {
            if let Ok(template) = text.parse::<Template>() {
                let _ = template.name(number);
            }
        }

        #[test]
        fn large_numbers_stay_apart(a: u64, b: u64) {
            let template = template("13030/c7.reeeeeeeeeeek");
            let (a, b) = (a % template.capacity, b % template.capacity);
            prop_assert_eq!(template.name(a) == template.name(b), a == b);
        }
    }
}
