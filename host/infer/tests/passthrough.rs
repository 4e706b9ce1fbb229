//! Pass-through: what it copies, and that it never allocates.

use proptest::prelude::*;
use ringcall_infer::{ElementType, InferError, Model, Passthrough, TensorSpec, conformance};

fn spec(name: &str, element: ElementType, shape: &[usize]) -> TensorSpec {
    TensorSpec::new(name, element, shape).unwrap()
}

fn spec_strategy() -> impl Strategy<Value = (ElementType, Vec<usize>)> {
    (prop::sample::select(ElementType::ALL.to_vec()), prop::collection::vec(1usize..6, 0..4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_shape_conforms_and_copies(
        inputs in prop::collection::vec(spec_strategy(), 1..4),
        outputs in prop::collection::vec(spec_strategy(), 1..4),
    ) {
        let named = |specs: &[(ElementType, Vec<usize>)]| -> Vec<TensorSpec> {
            specs.iter().enumerate().map(|(i, (e, s))| spec(&format!("t{i}"), *e, s)).collect()
        };
        let same = Passthrough::new("same", named(&inputs)).unwrap();
        conformance::check(&same).map_err(TestCaseError::fail)?;
        let bytes = conformance::made_up(same.inputs(), 9);
        conformance::check_case(&same, &bytes, &bytes, conformance::Tolerance::Exact)
            .map_err(TestCaseError::fail)?;
        let other = Passthrough::with_outputs("other", named(&inputs), named(&outputs)).unwrap();
        conformance::check(&other).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn fills_what_it_cannot_copy_with_zeros() {
    let model = Passthrough::with_outputs(
        "mixed",
        vec![spec("a", ElementType::U8, &[3]), spec("b", ElementType::U8, &[2])],
        vec![
            spec("longer", ElementType::I32, &[1]),
            spec("flags", ElementType::Bool, &[2]),
            spec("none", ElementType::U8, &[1]),
        ],
    )
    .unwrap();
    let expected = [vec![7, 8, 9, 0], vec![0, 0], vec![0]];
    conformance::check_case(&model, &[vec![7, 8, 9], vec![5, 6]], &expected, conformance::Tolerance::Exact)
        .unwrap();
}

#[test]
fn refuses_what_is_no_model() {
    let invalid = |specs: Vec<TensorSpec>| {
        let error = Passthrough::new("bad", specs).unwrap_err();
        assert!(matches!(error, InferError::InvalidSpec { .. }), "{error}");
        error.to_string()
    };
    invalid(vec![]);
    let x = spec("x", ElementType::U8, &[1]);
    assert!(invalid(vec![x.clone(), x.clone()]).contains("earlier"));
    assert!(invalid(vec![TensorSpec { shape: vec![1, 0], ..x.clone() }]).contains("dimension of 0"));
    assert!(invalid(vec![TensorSpec { shape: vec![usize::MAX, usize::MAX], ..x.clone() }]).contains("bytes"));
    assert!(invalid(vec![TensorSpec { name: String::new(), ..x }]).contains("no name"));
}

#[test]
fn a_run_allocates_nothing() {
    let model =
        Passthrough::new("d31", vec![spec("measurements", ElementType::I32, &[1, 1440, 31])]).unwrap();
    let mut engine = model.instantiate().unwrap();
    let input = vec![1u8; model.inputs()[0].size_bytes()];
    let mut output = vec![0u8; input.len()];
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            engine.run(&[&input], &mut [&mut output]).unwrap();
        }
    });
    assert_eq!(counted.count_total, 0);
    assert_eq!(output, input);
    let counter_works = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counter_works.count_total, 1);
}
