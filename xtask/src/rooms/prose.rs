//! Rule about prose: sentences name their subject.

use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "named-subjects",
    says: "at most 1 in 100 sentences of comments leans on a phrase that hides its subject (xtask/src/rooms/prose.rs lists \
           them): name the thing, every time",
    check,
    planted: || planted("host/x/src/lib.rs", "//! A ring is given to whoever asks for it."),
};

/// Phrases that stand where a noun should.
const PHRASES: [&str; 12] = [
    "whoever",
    "whatever",
    "nobody",
    "somebody",
    "the one that",
    "those that",
    "that of",
    "what is",
    "of its own",
    "stands in",
    "goes on",
    "for ever",
];

/// Shorter sentences are labels.
const WORDS: usize = 5;

fn check(tree: &Tree) -> Vec<String> {
    let mut sentences = 0;
    let mut leaning = Vec::new();
    for file in
        tree.files.iter().filter(|file| !file.path.starts_with("oracles/") && !file.path.starts_with("fuzz/"))
    {
        for (line, comment) in &file.comments {
            let ends = |c: char| matches!(c, '.' | ';' | ':' | '!' | '?');
            for sentence in
                comment.split_inclusive(ends).filter(|sentence| sentence.split_whitespace().count() >= WORDS)
            {
                sentences += 1;
                if let Some(phrase) = PHRASES.iter().find(|phrase| leans(sentence, phrase)) {
                    leaning.push(format!("{}:{line}: `{phrase}`: {}", file.path, sentence.trim()));
                }
            }
        }
    }
    if leaning.len() * 100 > sentences { leaning } else { Vec::new() }
}

/// Whether a sentence has the words of `phrase`.
fn leans(sentence: &str, phrase: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let split = text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '_');
        split.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let wanted = words(phrase);
    words(sentence).windows(wanted.len()).any(|window| *window == wanted[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_allowed() {
        let good = "// A poller polls the request flags of a ring.\n\n".repeat(99);
        let bad = "// The slot is free for whatever comes next.\n\n";
        assert!(check(&Tree::of("host/x/src/lib.rs", &format!("{good}{bad}"))).is_empty());
        assert_eq!(check(&Tree::of("host/x/src/lib.rs", &format!("{good}{bad}{bad}"))).len(), 2);
        assert!(check(&Tree::of("host/x/tests/a.rs", bad)).is_empty());
    }

    #[test]
    fn phrases_are_whole_words_in_any_case() {
        assert!(leans("Whatever it is, it is polled.", "whatever"));
        assert!(leans("a stream of its\u{20}own", "of its own"));
        assert!(!leans("what issues a request", "what is"));
    }
}
