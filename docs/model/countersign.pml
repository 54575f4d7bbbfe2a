/*
 * The protocol of one turn with two calls, from its registration to the turn
 * that goes on from it; or, with REPLY, of one that asks for a reply and has no
 * calls. README.md says what is modelled and what is left out.
 *
 * Each transaction is one atomic block, as it holds its turn's row lock from
 * its first read to its commit. Everything between two blocks may be
 * interleaved, and a process may stop for ever between any two.
 *
 * A flag given by spin -D seeds one bug; model_test.go names what catches it.
 */

#define UNSAFE 0 /* call 0: a tool of effect unsafe */
#define KEYED  1 /* call 1: a tool of effect keyed */

#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef CRASHES
#define CRASHES 1 /* of workers */
#endif
#ifndef DEATHS
#define DEATHS 1 /* live next turns whose lease runs out */
#endif
#ifndef FAILS
#define FAILS 1 /* next turns, or deliveries, that are given up */
#endif
#ifndef LOSSES
#define LOSSES 1 /* messages that are lost */
#endif
#ifndef REPEATS
#define REPEATS 1 /* messages that come again */
#endif

/* A call's part. */
#define REQUESTED 0
#define RESPONDED 1
#define AVAILABLE 2
#define ERROR     3
#define DENIED    4

/* A call's run. */
#define NONE      0
#define QUEUED    1
#define STARTED   2
#define SUCCEEDED 3
#define FAILED    4
#define STOPPED   5
#define UNKNOWN   6
#define CLOSED    7

/* The continuation. */
#define NOTYET     0
#define READY      1
#define DISPATCHED 2
#define ACCEPTED   3
#define SUPERSEDED 4
#define GIVENUP    5 /* failed, until a person redrives it */

/* What an attempt knows of its end. */
#define DID     0
#define SAIDNO  1
#define NOTSURE 2
#define UNSENT  3

/* The rows. */
byte part[2];
byte runs[2];
byte fence[2];
byte owner[2];     /* the claim's token: 1 + the worker, 0 nobody */
bool uncertain[2]; /* an attempt before the last may have had its effect */
bool resolved[2];  /* by a person */
byte openApprovals = 2;
byte openCalls = 2;
bool ended;        /* cancelled or superseded */
byte cont;
byte accepter;     /* 1 + the backend whose turn accepted it */
byte generation;   /* of the continuation: grows when it is taken back */
bool live[2];      /* each backend's live next turn, while its lease lasts */
bool called[2];    /* and whether it has committed a call */
bool nextEnded;    /* the next turn was cancelled or superseded while it was live */
bool before;       /* another turn of the topic is open */
bool queued;       /* a reply that waits until it is over */

/* Messages: only hints, kept, lost and repeated. */
bool hint[2];
bool delivered;

/* What really happened, which no row can correct. */
byte effects[2];   /* of the keyed tool: whether any, since its key makes them one */
byte verdicts[2];
byte continuations;
byte completed;
bool foundNot[2];  /* a person found that it did not happen */
bool told;         /* a message was sent since the continuation was taken back last */

/* What each worker has in its hands: 1 + the call, and whether it sent. */
byte holds[2];
bool sent[2];

byte crashes = CRASHES;
byte deaths = DEATHS;
byte fails = FAILS;
byte losses = LOSSES;
byte repeats = REPEATS;

#define TERMINAL(c)  (part[c] >= AVAILABLE)
#define COUNTED      (openApprovals == (part[0] == REQUESTED) + (part[1] == REQUESTED) && openCalls == !TERMINAL(0) + !TERMINAL(1))
#define DELIVERABLE  (cont == READY || cont == DISPATCHED)
#define CONTINUABLE  (DELIVERABLE || cont == GIVENUP) /* whoever comes first gets it */
#define PENDING(c)   (holds[0] == 1 + c && !sent[0] || holds[1] == 1 + c && !sent[1])
#define OVER         (ended || cont == ACCEPTED && (completed > 0 || nextEnded))

/* settle ends every transaction that changed a call. approvals and calls are
   the counters that it goes by: the locked row's. */
inline settle(approvals, calls) {
	if
	:: !ended && approvals == 0 && part[0] == RESPONDED && runs[0] == NONE -> runs[0] = QUEUED; hint[0] = true
	:: else
	fi;
	if
	:: !ended && approvals == 0 && part[1] == RESPONDED && runs[1] == NONE -> runs[1] = QUEUED; hint[1] = true
	:: else
	fi;
	if
#ifdef EARLY
	:: !ended && cont == NOTYET && approvals == 0 ->
#else
	:: !ended && cont == NOTYET && calls == 0 ->
#endif
		cont = READY;
		continuations++;
		assert(continuations == 1);       /* one continuation (I2) */
		assert(openCalls == 0)            /* not before all is settled (I2) */
	:: else
	fi;
	assert(COUNTED);
	assert(!ended || !CONTINUABLE)            /* an ended turn makes none (I2) */
}

/* answer moves a call by a verdict, or by what closes its card instead. */
inline answer(c, to) {
	verdicts[c]++;
	assert(verdicts[c] == 1);                 /* one decision, never reopened (I1) */
	openApprovals--;
	part[c] = to;
	if
	:: to == DENIED -> openCalls--
	:: else
	fi
}

inline conclude(c, how, to) {
	runs[c] = how;
	if
	:: !TERMINAL(c) -> part[c] = to; openCalls--
	:: else
	fi
}

inline requeue(c) {
	runs[c] = QUEUED;
	owner[c] = 0;
	hint[c] = true
}

/* lose is the class rule for an attempt whose outcome nobody knows (I4). */
inline lose(c) {
	if
#ifdef REQUEUEENDED
	:: fence[c] < ATTEMPTS && c == KEYED -> uncertain[c] = true; requeue(c)
#elif defined(RERUN)
	:: !ended && fence[c] < ATTEMPTS -> uncertain[c] = true; requeue(c)
#else
	:: !ended && fence[c] < ATTEMPTS && c == KEYED -> uncertain[c] = true; requeue(c)
#endif
	:: else -> runs[c] = UNKNOWN
	fi
}

/* Two people answer the cards, in any order, as they like, and against each
   other. An answer to a card that is closed meanwhile changes nothing. */
proctype Person() {
	byte c, approvals, calls;
#ifdef REOPEN
#define ANSWERABLE(c) (part[c] == REQUESTED || part[c] == RESPONDED && runs[c] == NONE)
#else
#define ANSWERABLE(c) (part[c] == REQUESTED)
#endif
end:	do
	:: atomic {
		if
		:: ANSWERABLE(0) -> c = 0
		:: ANSWERABLE(1) -> c = 1
		fi;
#ifdef NOLOCK
		approvals = openApprovals; /* read before the lock: another decider may come in between */
		calls = openCalls
	   };
	   atomic {
#endif
		if
		:: ANSWERABLE(c) ->
			if
			:: answer(c, RESPONDED)
			:: answer(c, DENIED)
			fi;
#ifdef NOLOCK
			approvals--;
			calls = calls - (part[c] == DENIED);
			settle(approvals, calls)
#else
			settle(openApprovals, openCalls)
#endif
		:: else
		fi;
		c = 0;
		approvals = 0;
		calls = 0
	   }
	od
}

/* Somebody cancels the turn, or a newer message supersedes it, or not. */
inline endCall(c) {
	if
	:: part[c] == REQUESTED -> verdicts[c]++; openApprovals--; openCalls--; part[c] = DENIED
#ifndef LEAVEQUEUED
	:: part[c] == RESPONDED && (runs[c] == QUEUED || runs[c] == NONE) ->
		runs[c] = (runs[c] == NONE -> NONE : (uncertain[c] -> FAILED : STOPPED));
		part[c] = ERROR;
		openCalls--
#endif
	:: else
	fi
}

proctype Cancel() {
	if
	:: atomic {
		!OVER && cont != ACCEPTED;
		endCall(0);
		endCall(1);
		ended = true;
		queued = false;
		cont = (cont == NOTYET -> NOTYET : SUPERSEDED);
		settle(openApprovals, openCalls)
	   }
#ifdef REPLY
	:: atomic { /* the next turn, while it is live: nothing comes back from it */
		cont == ACCEPTED && live[accepter - 1] ->
		live[accepter - 1] = false;
		called[accepter - 1] = false;
		nextEnded = true
	   }
#endif
	:: skip
	fi
}

/* finish records the end of the attempt that a worker has, under its fence and
   token. An unknown outcome accepts one late result of its own attempt. */
inline finish() {
	atomic {
		skip;
		if
#ifdef NOFENCE
		:: runs[c] == STARTED || runs[c] == UNKNOWN ->
#else
		:: fence[c] == mine && owner[c] == 1 + id && !resolved[c] &&
		   (runs[c] == STARTED || runs[c] == UNKNOWN && (how == DID || how == SAIDNO || how == UNSENT && !uncertain[c])) ->
#endif
			assert(fence[c] == mine); /* a result is of the attempt that has the fence */
			if
			:: how == DID -> conclude(c, SUCCEEDED, AVAILABLE)
			:: how == SAIDNO -> conclude(c, FAILED, ERROR)
			:: how == NOTSURE -> lose(c)
			:: how == UNSENT && runs[c] == STARTED && !ended && fence[c] < ATTEMPTS -> requeue(c)
			:: how == UNSENT && !(runs[c] == STARTED && !ended && fence[c] < ATTEMPTS) ->
				if
				:: uncertain[c] -> runs[c] = UNKNOWN
				:: else -> conclude(c, FAILED, ERROR)
				fi
			fi;
			settle(openApprovals, openCalls)
		:: else /* the fence is lost */
		fi;
		drop()
	}
}

inline drop() {
	holds[id] = 0;
	sent[id] = false;
	mine = 0;
	how = 0;
	c = 0;
	goto end
}

/* A worker is told by a message, or looks by itself; claims, sends, finishes.
   It may die before and after the effect, and may be so slow that its lease is
   long gone when it sends, or when it finishes. */
proctype Worker(byte id) {
	byte c, mine, how;
end:	atomic {
		if
		:: hint[0] -> c = 0
		:: hint[1] -> c = 1
#ifndef HINTSONLY
		:: runs[0] == QUEUED && !hint[0] -> c = 0
		:: runs[1] == QUEUED && !hint[1] -> c = 1
#endif
		fi;
		if
		:: hint[c] = false                /* acknowledged */
		:: hint[c] && repeats > 0 -> repeats-- /* it comes again */
		fi;
		if
#ifdef NOCLAIM
		:: part[c] == RESPONDED && runs[c] != NONE ->
#else
		:: runs[c] == QUEUED ->
#endif
			assert(verdicts[c] == 1 && part[c] == RESPONDED); /* nothing runs that nobody approved (I5, I6) */
			assert(!ended);                           /* an ended turn starts nothing (I6) */
			runs[c] = STARTED;
			fence[c]++;
			owner[c] = 1 + id;
			mine = fence[c];
			holds[id] = 1 + c
		:: else -> c = 0; goto end
		fi
	};
	if
	:: atomic {
		effects[c] = (c == UNSAFE -> effects[c] + 1 : 1);
		sent[id] = true;
		assert(effects[UNSAFE] <= 1);             /* an unsafe tool has its effect once at most (I4) */
		assert(part[c] != DENIED);                /* a denied call never runs (I6) */
		assert(!foundNot[c]);                     /* what a person found not to have happened never does */
		if
		:: how = DID
		:: how = SAIDNO
		:: how = NOTSURE
		fi
	   }
	:: how = NOTSURE
	:: how = UNSENT
	:: atomic { crashes > 0 -> crashes--; drop() }    /* dies before the effect */
	fi;
	if
	:: finish()
	:: atomic { crashes > 0 -> crashes--; drop() }    /* dies after the effect, before the result */
	fi
}

/* What time alone makes due. It may find a lease run out at any moment. */
inline loseLease(c) {
	runs[c] == STARTED;
	lose(c);
	settle(openApprovals, openCalls)
}

inline expire(c) {
	part[c] == REQUESTED;
	answer(c, DENIED);
	settle(openApprovals, openCalls)
}

proctype Sweep() {
end:	do
	:: atomic { expire(0) }
	:: atomic { expire(1) }
#ifndef NOSWEEP
	:: atomic { loseLease(0) }
	:: atomic { loseLease(1) }
#endif
	od
}

/* A person resolves what nobody knows, not before the last attempt can no
   longer be alive, and by what really happened. */
inline resolve(c) {
	runs[c] == UNKNOWN && !resolved[c];
#ifndef NOQUARANTINE
	!PENDING(c);
#endif
	resolved[c] = true;
	if
	:: effects[c] > 0 -> conclude(c, SUCCEEDED, AVAILABLE)
	:: effects[c] == 0 -> foundNot[c] = true; conclude(c, FAILED, ERROR)
	:: conclude(c, CLOSED, ERROR)
	fi;
	settle(openApprovals, openCalls)
}

proctype Resolver() {
end:	do
	:: atomic { resolve(0) }
	:: atomic { resolve(1) }
	:: atomic { cont == GIVENUP -> cont = READY } /* a person has it tried again */
	od
}

/* The continuer sends what is ready, and then marks it: it may die in between,
   and its mark may be late. What nobody accepted is sent again, for a day.
   Where the calls come first, sending and marking is one step. */
proctype Continuer() {
	byte read;
end:	do
#ifndef REPLY
	:: atomic { cont == READY -> cont = DISPATCHED; delivered = true }
#else
	:: atomic { cont == READY && !queued -> delivered = true; told = true; read = generation };
		if
		:: atomic {
			if
#ifdef MARKBLIND
			:: read == generation && cont != NOTYET ->
#elif defined(NOGENERATION)
			:: DELIVERABLE ->
#else
			:: read == generation && DELIVERABLE ->
#endif
				cont = DISPATCHED;
				assert(told)      /* what is marked as sent was, since it came back */
			:: else
			fi;
			read = 0
		   }
		:: read = 0
		fi
#endif
#ifdef FOREVER
	:: atomic { cont == DISPATCHED -> cont = READY } /* however often, whether it was received or not */
#else
	:: atomic { cont == DISPATCHED && !delivered -> cont = READY }
#endif
	:: atomic { DELIVERABLE && !queued && fails > 0 -> fails--; cont = GIVENUP }
	od
}

/* stand ends the next turn with what it holds. */
inline stand(id) {
	completed++;
	assert(completed == 1 && !nextEnded);     /* one next turn completes (I2) */
	assert(cont == ACCEPTED && accepter == 1 + id) /* and it is the one that accepted */
}

/* The seeded bugs that leave the continuation where it is. */
#ifdef NORETURN
#define KEPT (to == READY)
#elif defined(NOFAIL)
#define KEPT (to == GIVENUP)
#else
#define KEPT false
#endif

/* takeBack takes the continuation from the next turn that had accepted it and
   has left nothing behind; one that has committed a call stands. */
inline takeBack(id, to) {
	live[id] = false;
	if
#ifdef RETURNCALLED
	:: called[id] -> completed++; cont = to; accepter = 0; generation++; told = false
#else
	:: called[id] -> stand(id)
#endif
#ifdef ABANDONANY
	:: !called[id] -> cont = to; accepter = 0; generation++; told = false
#else
	:: !called[id] && cont == ACCEPTED && accepter == 1 + id && !KEPT -> cont = to; accepter = 0; generation++; told = false
#endif
	:: else
	fi;
	called[id] = false
}

/* Two nodes of the chat backend, or workers that ask a model, may each get the
   continuation, and open a live turn with it. One that is too slow loses its
   lease, and the continuation comes back for another. One that gets no answer
   from its model gives up, and a person must look. */
proctype Backend(byte id) {
	bool mine;
end:	do
	:: atomic {
		delivered ->
		delivered = false;
		if
#ifdef TWOACCEPT
		:: cont != SUPERSEDED ->
#elif defined(ACCEPTQUEUED)
		:: CONTINUABLE ->
#else
		:: CONTINUABLE && !queued ->
#endif
			assert(!queued || !before); /* a reply waits for its turn */
			cont = ACCEPTED;
			accepter = 1 + id;
			live[id] = true;
			mine = true;
			if
			:: repeats > 0 -> repeats--; delivered = true /* it comes again */
			:: skip
			fi
		:: else
		fi
	   };
		do
#ifdef REPLY
		:: mine && !called[id] -> atomic { /* a call of it is shown once it is committed */
			if
			:: live[id] -> called[id] = true
			:: else -> mine = false
			fi
		   }
#endif
		:: mine -> atomic {
			if
#ifdef NOLIVEFENCE
			:: true ->
#else
			:: live[id] ->
#endif
				stand(id);
				live[id] = false;
				called[id] = false
			:: else
			fi;
			mine = false
		   }
		:: mine && fails > 0 -> atomic { /* gives up */
			fails = (fails > 0 -> fails - 1 : 0);
			if
#ifdef ABANDONANY
			:: true ->
#else
			:: live[id] ->
#endif
				takeBack(id, GIVENUP)
			:: else
			fi;
			mine = false
		   }
		:: mine && deaths > 0 -> mine = false /* dies; its lease runs out */
		:: !mine -> break
		od
	od
}

inline returnFrom(id) {
#ifdef RETURNENDED
	(live[id] || nextEnded && accepter == 1 + id) && deaths > 0;
#else
	live[id] && deaths > 0;
#endif
	deaths--;
	takeBack(id, READY)
}

proctype LiveSweep() {
end:	do
	:: atomic { returnFrom(0) }
	:: atomic { returnFrom(1) }
	:: atomic { queued && !before -> queued = false }
	od
}

/* Messages are lost: in flight, with a node, with a wiped stream. */
proctype Loss() {
end:	do
	:: atomic { losses > 0 && hint[0] -> losses--; hint[0] = false }
	:: atomic { losses > 0 && hint[1] -> losses--; hint[1] = false }
	:: atomic { losses > 0 && delivered -> losses--; delivered = false }
	od
}

/* A turn before the reply comes to its end. */
proctype Before() {
	before = false
}

init {
	atomic {
#ifdef REPLY
		part[0] = AVAILABLE;
		part[1] = AVAILABLE;
		openApprovals = 0;
		openCalls = 0;
		if
		:: before = true; queued = true; run Before()
		:: skip
		fi;
		if
		:: repeats > 0 -> repeats--; delivered = true /* whoever asks for it may, before he is told */
		:: skip
		fi;
		settle(openApprovals, openCalls);
#else
		run Person();
		run Worker(0);
#ifndef ALONE
		run Person();
		run Worker(1);
#endif
		run Sweep();
#endif
#ifndef NOCANCEL
		run Cancel();
#endif
		run Resolver();
		run Continuer();
		run Backend(0);
		run Backend(1);
		run LiveSweep();
		run Loss()
	}
}

/* Every decided turn continues: once both cards are answered the turn is, in
   the end, continued by a turn that completes, or it was ended (I8). */
#ifdef LIVENESS
ltl continues { [] (openApprovals == 0 -> <> OVER) }
#endif
