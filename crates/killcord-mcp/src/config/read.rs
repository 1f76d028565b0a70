//! Reading one table: each key is taken out of it with its type and its bounds, and what is left is not known.

use super::check::Wrong;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A table that is being read.
pub(super) struct Table<'t, 'i> {
    name: &'static str,
    left: Vec<(&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>)>,
    known: Vec<&'static str>,
}

/// What was said to be wrong so far, and the text in which it is.
pub(super) struct Problems<'t> {
    pub(super) text: &'t str,
    pub(super) wrong: Vec<Wrong>,
}

impl Problems<'_> {
    pub(super) fn add(&mut self, span: &Range<usize>, key: &str, what: impl AsRef<str>) {
        self.wrong.push(Wrong::new(self.text, span.start, key, what.as_ref()));
    }
}

/// What a value is, for a person.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A value with its place.
pub(super) struct Found<'t, 'i> {
    pub(super) value: &'t DeValue<'i>,
    pub(super) span: Range<usize>,
    pub(super) key: String,
}

impl Found<'_, '_> {
    /// Says that it is something else than `right`.
    pub(super) fn not(&self, right: &str, problems: &mut Problems<'_>) {
        problems.add(&self.span, &self.key, format!("is {}; use {right}", kind(self.value)));
    }

    pub(super) fn integer(&self) -> Option<i128> {
        let DeValue::Integer(n) = self.value else { return None };
        i128::from_str_radix(n.as_str(), n.radix()).ok()
    }
}

impl<'t, 'i> Table<'t, 'i> {
    /// None is an empty one: every key has its default.
    pub(super) fn new(name: &'static str, table: Option<&'t DeTable<'i>>) -> Self {
        Self { name, left: table.map(|t| t.iter().collect()).unwrap_or_default(), known: Vec::new() }
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// Takes a key out, if it is there.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Found<'t, 'i>> {
        self.known.push(key);
        let at = self.left.iter().position(|(name, _)| name.get_ref() == key)?;
        let (_, value) = self.left.remove(at);
        Some(Found { value: value.get_ref(), span: value.span(), key: self.path(key) })
    }

    /// A whole number within bounds.
    pub(super) fn number<T>(
        &mut self,
        key: &'static str,
        bounds: RangeInclusive<T>,
        to: &mut T,
        p: &mut Problems<'_>,
    ) where
        T: Copy + Display + TryFrom<i128> + PartialOrd,
    {
        let Some(found) = self.take(key) else { return };
        let right = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        let DeValue::Integer(written) = found.value else { return found.not(&right, p) };
        match found.integer().and_then(|n| T::try_from(n).ok()).filter(|n| bounds.contains(n)) {
            Some(n) => *to = n,
            None => {
                p.add(&found.span, &found.key, format!("{} is out of bounds; use {right}", written.as_str()));
            }
        }
    }

    pub(super) fn truth(&mut self, key: &'static str, to: &mut bool, p: &mut Problems<'_>) {
        let Some(found) = self.take(key) else { return };
        match found.value {
            DeValue::Boolean(value) => *to = *value,
            _ => found.not("true or false", p),
        }
    }

    /// One of several words.
    pub(super) fn word<T: Clone>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        to: &mut T,
        p: &mut Problems<'_>,
    ) {
        let Some(found) = self.take(key) else { return };
        let names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let right = match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => names.concat(),
        };
        let Some(text) = found.value.as_str() else { return found.not(&right, p) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => *to = value.clone(),
            None => p.add(&found.span, &found.key, format!("there is no {text:?}; use {right}")),
        }
    }

    /// Another value, by a function that says what would be right.
    pub(super) fn other<T>(
        &mut self,
        key: &'static str,
        to: &mut T,
        p: &mut Problems<'_>,
        read: impl FnOnce(&Found<'t, 'i>) -> Result<T, String>,
    ) {
        let Some(found) = self.take(key) else { return };
        match read(&found) {
            Ok(value) => *to = value,
            Err(what) => p.add(&found.span, &found.key, what),
        }
    }

    /// The items of a list, each by a function that says what would be right.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        right: &str,
        to: &mut Vec<T>,
        p: &mut Problems<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) {
        let Some(found) = self.take(key) else { return };
        let DeValue::Array(items) = found.value else { return found.not(right, p) };
        to.clear();
        for item in items {
            match item.get_ref().as_str().map(&read) {
                Some(Ok(value)) => to.push(value),
                Some(Err(what)) => p.add(&item.span(), &found.key, what),
                None => {
                    p.add(
                        &item.span(),
                        &found.key,
                        format!("has {} in it; use {right}", kind(item.get_ref())),
                    );
                }
            }
        }
    }

    /// Says of each key that is left that it is not known. Returns those that are.
    pub(super) fn done(self, p: &mut Problems<'_>) -> Vec<String> {
        for (name, _) in &self.left {
            let near = self.known.iter().map(|k| (distance(k, name.get_ref()), k)).min();
            let what = match near {
                Some((d, known)) if d <= 1 + known.len() / 4 => format!("did you mean {known}?"),
                _ if self.name.is_empty() => format!("there are {}", self.known.join(", ")),
                _ => format!("[{}] has {}", self.name, self.known.join(", ")),
            };
            p.add(&name.span(), &self.path(name.get_ref()), format!("not known; {what}"));
        }
        self.known.iter().map(|key| self.path(key)).collect()
    }
}

/// How many characters have to be added, removed, replaced or exchanged with the next (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let swap = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + swap);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
