/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a signal handler unwinds when it interrupts a wait and ends its thread, is cancelled, or throws.
 *
 * The unwinder asks the personality of each frame what to do. The frame that is below all frames of a wait (guarded.rs)
 * has one of ours, which gives the wait up. Rust's own personality ends the process when it meets an exception that
 * is not Rust's where Rust expects none. Here nothing of Rust has to be cleaned up, so such exceptions pass.
 */
#include <stdint.h>
#include <unwind.h>

/* In jump.rs: gives up the wait whose outermost frame has this stack pointer. */
void overlock_unwound(uintptr_t outermost);

_Unwind_Reason_Code overlock_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
					 struct _Unwind_Exception *exception, struct _Unwind_Context *context);
_Unwind_Reason_Code overlock_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
					 struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
	(void)version;
	(void)class;
	(void)exception;
	if (actions & _UA_CLEANUP_PHASE)
		overlock_unwound(_Unwind_GetCFA(context));
	return _URC_CONTINUE_UNWIND;
}

_Unwind_Reason_Code __real_rust_eh_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
					       struct _Unwind_Exception *exception, struct _Unwind_Context *context);
_Unwind_Reason_Code __wrap_rust_eh_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
					       struct _Unwind_Exception *exception, struct _Unwind_Context *context);
_Unwind_Reason_Code __wrap_rust_eh_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
					       struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
	static const _Unwind_Exception_Class rust = 0x4d4f5a0052555354; /* "MOZ\0RUST" */

	if ((actions & _UA_FORCE_UNWIND) || class != rust)
		return _URC_CONTINUE_UNWIND;
	return __real_rust_eh_personality(version, actions, class, exception, context);
}
