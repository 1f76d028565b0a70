//! What an edit changes, as a diff of one place: everything before and behind it is the same.

use std::fmt::Write;
use std::path::Path;

/// So many lines before and behind the place are shown.
const AROUND: usize = 3;

/// The difference as `diff -u` shows it.
pub(super) fn diff(path: &Path, before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(AROUND);
    let shown_tail = tail.min(AROUND);
    let mut out = String::new();
    let range = |length: usize| {
        let start = if length == 0 { from } else { from + 1 };
        format!("{start},{length}")
    };
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let (old_length, new_length) = (old_end + shown_tail - from, new_end + shown_tail - from);
    let shown = path.display();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "--- {shown}\n+++ {shown}\n@@ -{} +{} @@", range(old_length), range(new_length));
    let mut put = |sign: char, lines: &[&str]| {
        for line in lines {
            out.push(sign);
            out.push_str(line);
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    put(' ', &old[from..same]);
    put('-', &old[same..old_end]);
    put('+', &new[same..new_end]);
    put(' ', &old[old_end..old_end + shown_tail]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_the_place_and_three_lines_around_it() {
        let shown = diff(Path::new("f"), "1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n");
        assert_eq!(shown, "--- f\n+++ f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n");
        assert_eq!(diff(Path::new("f"), "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
        let shown = diff(Path::new("f"), "a", "a\nb\n");
        assert_eq!(shown, "--- f\n+++ f\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n");
    }
}
