//! The rotated surface code as a code, and the configurations against their published table.

use proptest::prelude::*;
use ringcall_qec::QecError;
use ringcall_qec::code::{Basis, CONFIGURATIONS, Configuration, MAX_DISTANCE, SurfaceCode};

fn overlap(a: &[u32], b: &[u32]) -> usize {
    a.iter().filter(|data| b.contains(data)).count()
}

/// Rank over GF(2).
fn rank(rows: &[&[u32]]) -> usize {
    let mut basis: Vec<Vec<u32>> = Vec::new();
    for row in rows {
        let mut row = row.to_vec();
        for other in &basis {
            if row.contains(&other[0]) {
                let (kept, new): (Vec<u32>, Vec<u32>) = row.iter().partition(|data| !other.contains(data));
                row = kept
                    .into_iter()
                    .chain(other.iter().copied().filter(|data| !new.contains(data)))
                    .collect();
                row.sort_unstable();
            }
        }
        if !row.is_empty() {
            basis.push(row);
        }
    }
    basis.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn checks_commute_are_independent_and_leave_one_logical_qubit(half in 1_u32..8) {
        let d = 2 * half + 1;
        let code = SurfaceCode::new(d).unwrap();
        for basis in Basis::BOTH {
            prop_assert_eq!(code.num_stabilizers(basis), (d * d - 1) / 2);
            let rows = code.check_matrix(basis);
            prop_assert_eq!(rank(&rows), rows.len());
            for row in &rows {
                prop_assert!(row.is_sorted_by(|a, b| a < b) && matches!(row.len(), 2 | 4));
                prop_assert_eq!(overlap(row, &code.logical(basis.dual())) % 2, 0);
                for other in code.check_matrix(basis.dual()) {
                    prop_assert_eq!(overlap(row, other) % 2, 0);
                }
            }
        }
        prop_assert_eq!(overlap(&code.logical(Basis::X), &code.logical(Basis::Z)), 1);
        prop_assert_eq!(code.logical(Basis::X).len(), d as usize);
    }

    #[test]
    fn columns_are_the_transposed_rows_and_end_at_the_boundary(half in 1_u32..8, z in any::<bool>()) {
        let d = 2 * half + 1;
        let code = SurfaceCode::new(d).unwrap();
        let basis = if z { Basis::Z } else { Basis::X };
        let columns = code.checks_on_data(basis);
        for (check, row) in (0..).zip(code.check_matrix(basis)) {
            for data in 0..code.num_data() {
                prop_assert_eq!(row.contains(&data), columns[data as usize].contains(&check));
            }
        }
        let expected: Vec<u32> = (0..d * d).filter(|&data| {
            let at = if z { data / d } else { data % d };
            at == 0 || at == d - 1
        }).collect();
        prop_assert_eq!(code.boundary(basis), expected);
    }

    #[test]
    fn no_two_checks_use_a_data_qubit_in_the_same_layer(half in 1_u32..8) {
        let code = SurfaceCode::new(2 * half + 1).unwrap();
        for layer in 0..4 {
            let mut used: Vec<u32> = Basis::BOTH
                .into_iter()
                .flat_map(|basis| code.stabilizers(basis).iter().filter_map(|check| check.schedule[layer]))
                .collect();
            let all = used.len();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len(), all);
        }
    }
}

#[test]
fn positions_surround_their_checks() {
    let code = SurfaceCode::new(5).unwrap();
    for check in Basis::BOTH.into_iter().flat_map(|basis| code.stabilizers(basis)) {
        for &data in &check.support {
            let (x, y) = code.data_position(data).unwrap();
            assert_eq!((x.abs_diff(check.position.0), y.abs_diff(check.position.1)), (1, 1));
        }
    }
    assert_eq!(code.data_position(25), None);
}

#[test]
fn only_odd_distances_in_range_are_taken() {
    for distance in [0, 1, 2, 4, 20, MAX_DISTANCE + 1, MAX_DISTANCE + 2, u32::MAX] {
        assert_eq!(SurfaceCode::new(distance).unwrap_err(), QecError::Distance { distance });
        assert_eq!(Configuration::new(distance, 1, Basis::X).unwrap_err(), QecError::Distance { distance });
    }
    assert_eq!(SurfaceCode::new(MAX_DISTANCE).unwrap().num_stabilizers(Basis::X), 32_512);
}

#[test]
fn configurations_are_those_of_the_table() {
    // name, rounds, rows, bytes, residual detectors, Z checks, slices, slot
    let table = [
        ("d7", 7, 72, 2_016, 336, 24, 14, 4_096),
        ("d13", 13, 252, 13_104, 2_184, 84, 26, 16_384),
        ("d21", 21, 660, 55_440, 9_240, 220, 42, 65_536),
        ("d31", 31, 1_440, 178_560, 29_760, 480, 62, 262_144),
        ("d13_r104", 104, 252, 104_832, 17_472, 84, 208, 131_072),
        ("d21_T42", 42, 660, 110_880, 18_480, 220, 84, 131_072),
    ];
    assert_eq!(table.len(), CONFIGURATIONS.len());
    for (name, rounds, rows, bytes, residual, z, slices, slot) in table {
        let c = Configuration::named(name).unwrap();
        assert_eq!(c.input_shape(), [1, rows, rounds], "{name}");
        assert_eq!(
            (c.input_bytes(), c.residual_detectors(), c.z_stabilizers()),
            (bytes, residual, z),
            "{name}"
        );
        assert_eq!((c.spatial_slices(), c.slot_size()), (slices, slot), "{name}");
        let code = SurfaceCode::new(c.distance).unwrap();
        assert_eq!(code.num_stabilizers(Basis::Z) as usize, z);
        let own = Configuration::new(c.distance, c.rounds, c.basis).unwrap();
        assert_eq!((own.slot_size(), own.residual_detectors()), (slot, residual));
    }
    assert_eq!(Configuration::all().count(), 6);
}

#[test]
fn unknown_configurations_and_impossible_rounds_are_refused() {
    let error = Configuration::named("d9").unwrap_err().to_string();
    assert!(error.contains("`d9`") && error.contains("d13_r104"), "{error}");
    for rounds in [0, u32::MAX] {
        let error = Configuration::new(5, rounds, Basis::Z).unwrap_err();
        assert!(matches!(error, QecError::Rounds { distance: 5, max: 699_050, .. }), "{error}");
    }
}
