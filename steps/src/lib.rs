//! The work of each state: what is done with a job's files, and the services that it is done with.
//!
//! A step is a function of a job, its services, its progress and a way to be stopped, to an outcome. It
//! knows nothing of actors. Every step can run again after a crash: what is done and verified is not
//! done twice.
//!
//! | to find | look in |
//! |---|---|
//! | the steps | [`step`] |
//! | which services there are, and how the configuration chooses them | [`services`], [`settings`] |
//! | the directories of jobs | [`work`] |
//! | what a step answers, how it tells its progress and is stopped | [`outcome`] |
//! | digests: their names, and several of one stream | [`digest`] |
//! | manifests of depositors | [`manifest`], and what a payload is: [`payload`] |
//! | files over HTTP: which addresses, how long, how much, again | [`fetch`] |
//! | where submissions come from by themselves | [`feed`] |
//! | archives and bags | [`archive`], [`bag`] |
//! | identifiers and who mints them | [`ark`], [`minter`] |
//! | where objects are kept | [`storage`] |
//! | the database of what is kept | [`inventory`] |
//! | whether what is kept is what was deposited | [`audit`] |
//! | which repository a tree, a storage, an inventory or a directory belongs to | [`identity`] |
//! | whether the tree is the one that was there before, and what to do if it is not | [`ledger`] |
//! | the files that describe an object | [`document`] |
//! | the call to a depositor's service | [`notify`] |
//! | whether there is room | [`provision`] |
//! | mail, what depositors and administrators are told | [`mail`], [`report`], [`alert`] |
//! | what a collection wants | [`profile`] |
//! | who may write to which object | [`rights`] |

pub mod alert;
pub mod archive;
pub mod ark;
pub mod audit;
pub mod bag;
pub mod digest;
pub mod document;
pub mod feed;
pub mod fetch;
pub mod identity;
pub mod inventory;
pub mod ledger;
pub mod mail;
pub mod manifest;
pub mod minter;
pub mod notify;
pub mod outcome;
pub mod payload;
pub mod profile;
pub mod provision;
pub mod report;
pub mod rights;
pub mod services;
pub mod settings;
pub mod size;
pub mod step;
pub mod storage;
pub mod upload_nodes;
pub mod urls;
pub mod work;
