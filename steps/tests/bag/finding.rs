//! Where in an unpacked container the bag is.

use std::fs;

use ingest_steps::bag::find_bag;

use super::made::Made;

#[test]
fn a_bag_is_found_where_it_is_and_one_directory_down() {
    let made = Made::new();
    assert_eq!(find_bag(made.path()).unwrap().unwrap(), made.path());
    let above = tempfile::tempdir().unwrap();
    fs::rename(made.path(), above.path().join("bag")).unwrap();
    assert_eq!(find_bag(above.path()).unwrap().unwrap(), above.path().join("bag"));
    fs::create_dir(above.path().join("__MACOSX")).unwrap();
    assert_eq!(find_bag(above.path()).unwrap().unwrap(), above.path().join("bag"));
}

#[test]
fn beside_other_things_it_is_not_looked_for() {
    let above = tempfile::tempdir().unwrap();
    assert_eq!(find_bag(above.path()).unwrap(), None);
    fs::create_dir(above.path().join("bag")).unwrap();
    assert_eq!(find_bag(above.path()).unwrap(), None);
    fs::write(above.path().join("bag/bagit.txt"), "").unwrap();
    assert!(find_bag(above.path()).unwrap().is_some());
    fs::write(above.path().join("readme"), "").unwrap();
    assert_eq!(find_bag(above.path()).unwrap(), None);
}

#[test]
fn a_link_to_a_bag_is_not_followed() {
    let made = Made::new();
    let above = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(made.path(), above.path().join("bag")).unwrap();
    assert_eq!(find_bag(above.path()).unwrap(), None);
}
