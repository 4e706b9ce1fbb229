//! Tensors by name.

use ringcall_infer::{ElementType, TensorSpec};
use ringcall_inference_service::{Bindings, Pick, ServiceError};

fn specs() -> Vec<TensorSpec> {
    let spec = |name: &str, element, shape: &[usize]| TensorSpec::new(name, element, shape).expect("a spec");
    vec![
        spec("residual_detectors", ElementType::I32, &[1, 336]),
        spec("logical_frame", ElementType::Bool, &[1, 5]),
        spec("weights", ElementType::F16, &[3, 7]),
    ]
}

fn choose(pick: &Pick) -> Result<Bindings, ServiceError> {
    Bindings::choose("engine", "output", &specs(), pick)
}

#[test]
fn the_first_is_primary_and_the_others_are_auxiliary() {
    let bindings = choose(&Pick::default()).expect("there");
    assert_eq!(bindings.bound().len(), 1);
    assert_eq!((bindings.bound()[0].spec.name.as_str(), bindings.bytes()), ("residual_detectors", 1344));
    let names: Vec<_> = bindings.auxiliary().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["logical_frame", "weights"]);
}

#[test]
fn names_choose_in_their_order_each_at_a_multiple_of_sixteen() {
    let bindings = choose(&Pick::names(["weights", "logical_frame", "residual_detectors"])).expect("there");
    let bound: Vec<_> = bindings.bound().iter().map(|b| (b.index, b.offset, b.bytes)).collect();
    assert_eq!(bound, [(2, 0, 42), (1, 48, 5), (0, 64, 1344)]);
    assert_eq!((bindings.bytes(), bindings.auxiliary().len()), (1408, 0));
}

#[test]
fn what_cannot_be_chosen_is_refused_by_name() {
    let why = |names: &[&str]| choose(&Pick::names(names.iter().copied())).expect_err("refused").to_string();
    let missing = why(&["weights", "bias"]);
    assert!(missing.contains("`bias`") && missing.contains("`logical_frame`"), "{missing}");
    assert!(why(&["weights", "weights"]).contains("twice"));
    assert!(why(&[]).contains("0 outputs"));
    let none = Bindings::choose("engine", "input", &[], &Pick::First).expect_err("no tensors").to_string();
    assert!(none.contains("0 inputs"), "{none}");
    let many: Vec<_> =
        (0..9).map(|i| TensorSpec::new(format!("t{i}"), ElementType::U8, [1]).expect("a spec")).collect();
    let names = Pick::names(many.iter().map(|spec| spec.name.clone()));
    let nine = Bindings::choose("engine", "input", &many, &names).expect_err("nine").to_string();
    assert!(nine.contains("9 inputs") && nine.contains("1 to 8"), "{nine}");
}
