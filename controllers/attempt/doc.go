// Package attempt runs Jobs for the objects that want something done at a cloud: machines, NodeDrivers (a probe) and ServerScans.
//
//	Unclaimed ──claim n──▶ Claimed ──Job n──▶ Running ──▶ Succeeded
//	                          ▲                  └──────▶ Failed ──claim n+1──▶ Claimed …
//
// The claim is a note in the object's record. It is written before the Job is made: a controller that is interrupted finds either the claim
// without a Job, or the Job, and never makes two. What is asked for, and what follows from the answer, is the controllers' own.
//
// It reads Jobs, their pods and the manager's pull Secrets; it writes records, Jobs and what these need, and deletes what they do not need
// any more.
package attempt
