//! What is refused when it is compiled, and in which words. Some of the words are the compiler's, and change with it:
//! `TRYBUILD=overwrite cargo test -p ringcall-handler --test refused` writes them anew, for `git diff` to show.

#[test]
fn mistakes_are_pointed_at() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
