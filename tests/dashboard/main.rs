//! The dashboard in a real browser: Debian's Chromium, without a window, against a node that is a process of its own. What is done is done by
//! clicks and keys alone, and what came of it is asked of the node.
//!
//! One browser and one node serve a whole story: starting them takes longer than most of what is told.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod acting;
mod away;
mod browser;
mod judging;
mod keys;
mod kit;
mod login;
mod managing;
mod many;
mod pictures;
#[path = "../kit/running.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod running;
mod searching;

use browser::Browser;
use kit::TestNode;

/// A day with the dashboard. The parts stand on each other: the later ones look at what the earlier ones have left.
#[tokio::test]
async fn everything_is_done_by_clicks_and_keys() {
    let mut node = TestNode::start("").await;
    let browser = Browser::start(&node.base).await;
    judging::an_empty_node_says_so_everywhere(&browser).await;
    judging::events_are_read_in_any_pieces_and_counted_once(&browser).await;
    let bid = acting::a_file_is_submitted_and_watched_until_it_is_completed(&node, &browser).await;
    acting::a_queue_and_a_job_are_held_and_released(&node, &browser).await;
    acting::a_collection_is_held_and_lifted(&node, &browser).await;
    searching::what_comes_in_a_minute_is_shown(&node, &browser).await;
    searching::jobs_are_searched_and_acted_upon_together(&node, &browser).await;
    searching::a_batch_is_held_and_released(&node, &browser).await;
    searching::what_failed_of_a_batch_is_requeued(&node, &browser).await;
    searching::a_failed_job_is_requeued_by_keys(&node, &browser).await;
    keys::an_address_is_submitted_by_keys(&node, &browser).await;
    acting::one_group_of_failures_is_requeued_and_no_other_is(&node, &browser).await;
    acting::failed_jobs_are_requeued_together(&node, &browser).await;
    acting::a_pool_is_resized_and_the_node_paused(&node, &browser).await;
    acting::an_object_is_asked_for(&node, &browser, &bid).await;
    acting::an_object_that_could_not_be_had_is_tried_again_or_given_up(&node, &browser, &bid).await;
    acting::a_job_and_a_batch_are_deleted(&node, &browser).await;
    acting::what_is_wrong_with_a_submission_is_said_beside_its_fields(&node, &browser).await;
    acting::a_restart_appears_while_one_looks(&node, &browser).await;
    managing::a_limit_is_set_changed_and_cleared(&node, &browser).await;
    managing::a_feed_is_paused_resumed_asked_and_set_back(&node, &browser).await;
    managing::requests_come_and_go_while_one_looks(&node, &browser).await;
    managing::a_profile_is_put_shown_and_deleted(&node, &browser).await;
    managing::a_setting_of_all_nodes_is_set_and_unset(&node, &browser).await;
    managing::a_routine_is_run(&node, &browser).await;
    managing::what_others_do_appears_in_the_audit_log(&node, &browser).await;
    keys::everything_that_is_seen_is_reached_with_tab(&node, &browser).await;
    judging::keys_alone_lead_everywhere(&browser).await;
    judging::hostile_names_do_nothing(&node, &browser).await;
    judging::every_page_fits_a_phone_and_satisfies_axe(&node, &browser).await;
    judging::lists_are_asked_for_in_pages(&browser).await;
    managing::a_feed_is_forgotten(&node, &browser).await;
    browser.complains_of_nothing().await;
    acting::the_node_is_drained(&mut node, &browser).await;
}

#[tokio::test]
async fn a_node_that_goes_away_is_noticed_and_found_again() {
    away::a_node_that_goes_away_is_noticed_and_found_again().await;
}

#[tokio::test]
async fn whoever_has_no_token_sees_nothing_and_others_what_their_role_allows() {
    login::roles().await;
}

#[tokio::test]
async fn the_pictures_show_what_the_node_counts() {
    pictures::the_pictures_show_what_the_node_counts().await;
}

#[tokio::test]
async fn the_dashboard_stays_live_with_very_many_jobs() {
    many::the_dashboard_stays_live_with_very_many_jobs().await;
}
