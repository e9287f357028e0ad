/* The store as the claim side sees it, and the scripts that change it, each one step.
 *
 * A list is a count for each ID: the order of entries is left open, and where a script meets
 * two IDs in one list, `first` says which one it meets first (chosen by the caller, both ways).
 * Job IDs are 0..NJ-1. Identities are 1..NI, 0 is none. Tokens are (identity, claim number).
 */

#ifndef NJ
#define NJ 2        /* job IDs */
#endif
#ifndef NC
#define NC 2        /* consumer processes */
#endif
#ifndef NI
#define NI 3        /* identities that can be opened */
#endif
#ifndef S
#define S 2         /* jobs that one identity can hold: 1 or 2 */
#endif
#ifndef NG
#define NG 1        /* late copies on the wire at once */
#endif
#ifndef MAXATT
#define MAXATT 2
#endif
#ifndef MAXCR
#define MAXCR 2
#endif

/* status of a job */
#define PEND 1
#define PROC 2
#define SCHED 3
#define DEAD 4
#define COMPL 5     /* completed, and its record is kept for a while */
#define CANC 6      /* cancelled, likewise */
#define EXPD 7      /* expired, likewise */
#define WAITING(j) (st[j] == PEND || st[j] == SCHED)
#define KEPT(j) (st[j] == COMPL || st[j] == CANC || st[j] == EXPD)

/* lease of an identity: a consumer's score in the registry */
#define ABSENT 0
#define LIVE 1
#define EXPIRED 2
#define FENCED 3

/* answers */
#define A_J 1
#define A_E 2
#define A_M 3
#define A_P 4
#define A_R 5
#define A_FENCED 6
#define A_EXPIRED 7
#define A_UNKNOWN 8
#define A_OLD 9
#define A_OK 10
#define A_GONE 11
#define A_STALE 12
#define A_DEAD 13

#define A_CANC 15   /* it was to be cancelled, and has ended so */
#define A_RUN 16    /* it is claimed, and is to be cancelled */
#define ANY 14      /* of tru: nothing is promised about the answer */

/* outcomes of a run */
#define O_DONE 1
#define O_RETRY 2
#define O_DEAD 3
#define O_RELEASE 4
#define O_SNOOZE 5
#define WAITS(o) ((o) == O_RETRY || (o) == O_RELEASE || (o) == O_SNOOZE)

/* owner of an identity, besides the processes 0..NC-1 */
#define ENDED 8     /* the process ended in order */
#define NOBODY 9    /* the process died */

/* The keys. */
#if NJ == 1
byte queue[2] = {1, 0};         /* pending, then arriving */
#elif defined(UNIQUE)
byte queue[4] = {1, 0, 0, 0};   /* the other one is enqueued later, if its key is free */
#else
byte queue[4] = {1, 1, 0, 0};
#endif
#define pend(j) queue[j]
#define arr(j) queue[NJ+(j)]
byte proc[(NI+1)*NJ];           /* processing:<c> */
bit  sched[NJ], due[NJ];        /* scheduled; due: its time has come */
bit  dead[NJ];
bit  compl[NJ];                 /* completed */
byte byc[NJ], byn[NJ];          /* completed_by of a job */
#ifdef UNIQUE
bit  ex[NJ] = {1, 0};
byte st[NJ] = {PEND, 0};
byte kh = 1;                    /* unique:<key>, of both jobs: its holder, ID+1 */
#else
bit  ex[NJ] = 1;                /* job:<id> is there, with */
byte st[NJ] = PEND;             /*   status */
#endif
byte tokc[NJ], tokn[NJ];        /*   claim_token */
byte att[NJ], cra[NJ];          /*   attempts, crashes */
bit  mark[NJ];                  /*   cancel_ms */
byte life[NJ];                  /*   append */
bit  aged[NJ];                  /*   expires_at_ms is over */
#ifdef LIMIT
bit  running[NJ], held[NJ];     /* running:<key> and held:<key>, of both jobs; one may run at a time */
bit  hm[NJ], hf[NJ];            /*   held_ms: the time at which it is scheduled; there is such a field */
#endif
byte score[NI+1];               /* consumers */
bit  rec[NI+1];                 /* sender:<c> is there, with */
byte cl_n[NI+1], cl_st[NI+1];   /*   claim, claim_status */
byte se_n[NI+1], se_code[NI+1]; /*   settle, settle_codes */
bit  leaving[NI+1];
byte sus[NI+1];                 /*   suspect: ID+1 */
byte charge[NI+1];              /*   charge: 0 undecided, 255 everything, else ID+1 alone */
bit  paused;
byte nid;                       /* counters: next_sender */

/* What nobody stores: the truth, to compare answers with. */
byte gser[NJ], gcur[NJ];        /* grants made of an ID; the one that is valid, 0: none */
byte failed[NJ];                /* runs that failed and were applied */
byte tru[NI+1];                 /* what the settle under way did when it was executed first */
byte hadsus[NI+1];              /* the suspect that an identity held when it was fenced: ID+1 */
bit  gcanc[NJ];                 /* the job that has this ID was asked to end, while it was claimed */

/* Of one step; not part of the state. */
hidden byte ans, gotm, taken, ch, x, y, first, w, cut, mysus, room, wake;
hidden byte halted;

#define P(c,j) proc[(c)*NJ+(j)]
#if NJ == 1
#define LLEN(c) (P(c,0))
#define PENDING (pend(0))
#else
#define LLEN(c) (P(c,0)+P(c,1))
#define PENDING (pend(0)+pend(1))
#endif

/* DO is one write of a script. With STOPS a script may end after any of them (`cut`), as one that
 * meets an error does; what it wrote stays. */
#ifdef STOPS
#define DO(stmts) if :: !halted -> stmts; w++; halted = (w == cut) :: else fi
#else
#define DO(stmts) stmts
#endif

#ifdef LIMIT
#define UNHELD(j) hm[j] = 0; hf[j] = 0
#else
#define UNHELD(j) skip
#endif
#define FORGET(j) ex[j] = 0; st[j] = 0; tokc[j] = 0; tokn[j] = 0; att[j] = 0; cra[j] = 0; failed[j] = 0; gcur[j] = 0; byc[j] = 0; byn[j] = 0; mark[j] = 0; aged[j] = 0; gcanc[j] = 0; UNHELD(j)
#define UNTOKEN(j) tokc[j] = 0; tokn[j] = 0
#ifdef MUT_TOKENSTAYS
#define RETURNED(j) skip
#else
#define RETURNED(j) UNTOKEN(j)
#endif

/* script: list_unique.lua, unique.lua
 * A key is its holder's as long as that one keeps it; who ends a job deletes its key in the same command, if it is noted as its. */
#ifdef UNIQUE
#ifdef KEEPDEAD
#define KEEPS(j) (ex[j] && (WAITING(j) || st[j] == PROC || st[j] == DEAD))
#else
#define KEEPS(j) (ex[j] && (WAITING(j) || st[j] == PROC))
#endif
#ifdef MUT_KEYLOCK
#define TAKEN(j) (kh == 2-(j))
#else
#define TAKEN(j) (kh == 2-(j) && KEEPS(1-(j)))
#endif
#ifdef MUT_LETGOANY
#define LETGO(j) kh = 0
#else
#define LETGO(j) kh = (kh == (j)+1 -> 0 : kh)
#endif
#define ERASE(j) FORGET(j); LETGO(j)
#else
#define ERASE(j) FORGET(j)
#endif

/* script: list_limits.lua (key_next, key_ended)
 * The claim of j ends, or j does while it is pending: who waits for the key is pending again, behind a claim when that is through. */
#ifdef LIMIT
inline key_next(j) {
	if
#ifdef MUT_WAKEANY
	:: held[j] && ex[j] && st[j] == SCHED ->
#else
	:: held[j] && ex[j] && st[j] == SCHED && sched[j] && hm[j] ->
#endif
		/* a delay is not cut short */
		assert(hm[j]);
		DO(pend(j)++);
		DO(st[j] = PEND);
		DO(sched[j] = 0; due[j] = 0; hm[j] = 0)
	:: else -> DO(held[j] = 0)
	fi
}
inline key_ended(j) {
	if
	:: running[j] || ex[j] && st[j] == PEND ->
		DO(running[j] = 0);
		key_next((1-(j)))
	:: else
	fi
}
#define KEY_LATER(j) DO(running[j] = 0); wake = wake | (1<<(1-(j)))
#define LATER(j) sched[j] = 1; due[j] = 0; hm[j] = 0
#else
#define key_ended(j) skip
#define KEY_LATER(j) skip
#define LATER(j) sched[j] = 1; due[j] = 0
#endif

/* script: list_end.lua, list_retain.lua: a job ends cancelled, expired or (settle) completed; c, n: the token under which it was claimed */
inline finish(j, how, c, n) {
	key_ended(j);
	ended(j, how, c, n)
}
inline ended(j, how, c, n) {
#ifdef RETAIN
	DO(compl[j] = 1);
	DO(byc[j] = c; byn[j] = n; st[j] = how; UNTOKEN(j); mark[j] = 0; gcur[j] = 0);
#ifdef UNIQUE
	DO(LETGO(j))
#endif
#else
	DO(ERASE(j))
#endif
}

inline lrem(c, j) { if :: P(c,j) > 0 -> DO(P(c,j) = P(c,j)-1) :: else fi }

/* script: list_give_back.lua, list_bury.lua */
inline give_back(c, j, chg) {
	if
#ifndef MUT_NOJUDGE
	:: !ex[j] || (tokc[j] != 0 && tokc[j] != c) || st[j] == SCHED || st[j] == DEAD || KEPT(j) -> lrem(c, j)
#else
	:: !ex[j] -> lrem(c, j)
#endif
	:: else ->
		if :: !mark[j] -> key_ended(j) :: else fi;
		if
#ifndef MUT_GIVENBACK
		:: mark[j] -> finish(j, CANC, tokc[j], tokn[j])
#endif
		:: !mark[j] && chg && tokc[j] == c ->
			charged_rightly(c, j);
#ifdef MUT_ATTCRASH
			att[j]++;
#endif
			if
			:: cra[j]+1 >= MAXCR ->
				DO(dead[j] = 1);
				DO(cra[j] = cra[j]+1; st[j] = DEAD; UNTOKEN(j); gcur[j] = 0)
			:: else ->
				DO(LATER(j));
				DO(cra[j] = cra[j]+1; st[j] = SCHED; RETURNED(j); gcur[j] = 0)
			fi
		:: else ->
#ifdef MUT_SRCFIRST
			lrem(c, j);
#endif
			DO(pend(j)++);
			gcur[j] = 0;
			DO(st[j] = PEND; RETURNED(j));
		fi;
#ifdef MUT_SRCFIRST
		if :: chg -> lrem(c, j) :: else fi
#else
		lrem(c, j)
#endif
	fi
}

/* The promises about charges: not for an orderly end, and, when the lost consumer held a
 * suspect, that one alone. */
inline charged_rightly(c, j) {
	assert(own[c] != ENDED);
	assert(hadsus[c] == 0 || hadsus[c] == j+1 || !rec[c])
}

#ifdef MUT_PAUSELATE
#define PAUSED 0
#else
#define PAUSED paused
#endif
#if defined(MUT_NOHELD) || defined(MUT_DIRECT)
#define MORE_THAN(c, h) 0
#else
#define MORE_THAN(c, h) (LLEN(c) > (h))
#endif
#ifdef MUT_TOKENATT
#define TOKN(n, j) (att[j]+1)
#else
#define TOKN(n, j) (n)
#endif

inline remember_claim(c, n, status) {
	DO(cl_n[c] = n; cl_st[c] = status);
	ans = status
}

/* free: the entry may be claimed, judged by its job alone. */
#if defined(MUT_NOJUDGE)
#define UNFIT(j) (!ex[j])
#elif defined(MUT_TOKENSTAYS)
#define UNFIT(j) (!ex[j] || st[j] != PEND)
#else
#define UNFIT(j) (!ex[j] || st[j] != PEND || tokc[j] != 0)
#endif

/* The moments of a job, as the claim judges them. */
#ifdef MUT_AGE
#define OVERAGE(j) 0
#else
#define OVERAGE(j) aged[j]
#endif
/* a key that has no room */
#ifdef LIMIT
#define HOLDS(j) (room == 0)
#else
#define HOLDS(j) 0
#endif

inline stamp(c, n, j) {
	st[j] = PROC; tokc[j] = c; tokn[j] = TOKN(n, j);
	gser[j]++; gcur[j] = gser[j]
}

/* No second claim while the first is valid, and of a key either. A script that ends in the middle may have given the
 * place of a claim away. */
#if defined(LIMIT) && !defined(STOPS)
#define NOBODY_ELSE(j) (gcur[1-(j)] == 0)
#else
#define NOBODY_ELSE(j) 1
#endif
inline may_start(c, j) {
	assert(gcur[j] == 0);
	assert(!gcanc[j]);
	assert(!aged[j]);
	assert(NOBODY_ELSE(j))
}

/* script: list_claim.lua (take), list_ready.lua (its entries, wherever a script pushes, returns or takes some) */
inline take(c, n, sl, source, j) {
	do
	:: taken < sl && queue[source+j] > 0 && !halted ->
		assert(!paused);
		if
		:: UNFIT(j) -> DO(queue[source+j]--)
		:: !UNFIT(j) && mark[j] -> KEY_LATER(j); ended(j, CANC, 0, 0); DO(queue[source+j]--)
		:: !UNFIT(j) && !mark[j] && OVERAGE(j) -> KEY_LATER(j); ended(j, EXPD, 0, 0); DO(queue[source+j]--)
#ifndef MUT_TWOSUSPECTS
		:: !UNFIT(j) && !mark[j] && !OVERAGE(j) && cra[j] > 0 && mysus ->
			if :: f_defer > 0 -> f_defer-- :: else fi;
			DO(LATER(j));
			DO(st[j] = SCHED);
			DO(queue[source+j]--)
#endif
#ifdef LIMIT
		/* script: list_limits.lua (key_holds): it waits for its key */
		:: !UNFIT(j) && !mark[j] && !OVERAGE(j) && !(cra[j] > 0 && mysus) && HOLDS(j) ->
			assert(gcur[1-(j)] != 0);
			if :: f_defer > 0 -> f_defer-- :: else fi;
#ifdef MUT_HOLDSRC
			DO(queue[source+j]--);
#endif
			DO(held[j] = 1);
			DO(LATER(j); hm[j] = 1; hf[j] = 1);
			DO(st[j] = SCHED);
#ifndef MUT_HOLDSRC
			DO(queue[source+j]--)
#endif
#endif
		:: else ->
#ifdef LIMIT
			room--;
			DO(running[j] = 1; held[j] = (hf[j] -> 0 : held[j]));
#endif
			if
			:: cra[j] > 0 -> mysus = 1; DO(sus[c] = j+1)
			:: else
			fi;
			may_start(c, j);
#if defined(MUT_SRCFIRST)
			DO(queue[source+j]--);
			DO(P(c,j) = P(c,j)+1);
			DO(stamp(c, n, j));
#elif defined(MUT_STAMPFIRST)
			DO(stamp(c, n, j));
			DO(P(c,j) = P(c,j)+1);
			DO(queue[source+j]--);
#else
			DO(P(c,j) = P(c,j)+1);
			DO(stamp(c, n, j));
			DO(queue[source+j]--);
#endif
			gotm = gotm | (1<<(j));
			taken++
		fi
	:: else -> break
	od
}

#ifdef LIMIT
/* script: list_limits.lua (key_state): the index is never believed when it says no */
inline key_room() {
	room = 1;
	for (x : 0 .. NJ-1) {
		if
		:: running[x] ->
#ifdef MUT_INDEX
			room = 0
#else
			if :: ex[x] && st[x] == PROC -> room = 0 :: else -> DO(running[x] = 0) fi
#endif
		:: else
		fi
	}
}
#endif

/* script: list_claim.lua (promotion) */
inline promote(j) {
	if
	:: due[j] ->
		assert(!paused);
		if
		:: ex[j] && st[j] == SCHED -> DO(pend(j)++); DO(st[j] = PEND)
		:: else
		fi;
		DO(sched[j] = 0; due[j] = 0)
	:: else
	fi
}

/* named: claim (c, token in the hash) is in the request: slot bits nmb of the client */
#if S == 1
#define NAMED(c, j, nmb) (((nmb)&1) && hj[(c)*S] == j+1 && hn[(c)*S] == tokn[j] && tokc[j] == c)
#else
#define NAMED(c, j, nmb) (tokc[j] == c && ((((nmb)&1) && hj[(c)*S] == j+1 && hn[(c)*S] == tokn[j]) || (((nmb)&2) && hj[(c)*S+1] == j+1 && hn[(c)*S+1] == tokn[j])))
#endif

inline reconcile(c, j, nmb) {
	do :: P(c,j) > 1 && !halted -> lrem(c, j) :: else -> break od;
	if
	:: P(c,j) == 1 && !NAMED(c, j, nmb) -> give_back(c, j, 0)
	:: else
	fi
}

/* script: list_claim.lua, list_sender.lua, list_base.lua
 * nmb: 0 nothing is named, else 4 + the slots that are. Leaves ans and gotm. */
inline claim(c, n, sl, h, nmb) {
	ans = 0; gotm = 0; taken = 0; mysus = 0;
	if
#ifdef MUT_NOLEASE
	:: else ->
#else
	:: score[c] == ABSENT || score[c] == FENCED -> ans = A_FENCED
	:: score[c] == EXPIRED -> ans = A_EXPIRED
	:: else ->
#endif
		if
		:: !rec[c] -> ans = A_UNKNOWN
		:: rec[c] && n < cl_n[c] -> ans = A_OLD
		:: rec[c] && n == cl_n[c] ->
			ans = cl_st[c];
			if
			:: ans == A_J ->
#ifdef MUT_CLAIMMEM
				gotm = cl_got[c];
#else
				for (x : 0 .. NJ-1) {
					if
					:: P(c,x) > 0 && tokc[x] == c && tokn[x] == TOKN(n, x) -> gotm = gotm | (1<<x)
					:: else
					fi
				}
#endif
				if :: gotm == 0 -> ans = A_M :: else fi
			:: else
			fi
		:: else ->
			if
			:: PAUSED -> remember_claim(c, n, A_P)
			:: !PAUSED && nmb == 0 && MORE_THAN(c, h) -> remember_claim(c, n, A_R)
			:: else ->
				if
				:: nmb > 0 -> reconcile(c, 0, nmb);
#if NJ > 1
					reconcile(c, 1, nmb);
#endif
				:: else
				fi;
#ifdef MUT_DIRECT
				adopt(c, n, 0);
#if NJ > 1
				adopt(c, n, 1);
#endif
#endif
				promote(0);
#if NJ > 1
				promote(1);
#endif
				if
				:: sus[c] > 0 && tokc[sus[c]-1] == c -> mysus = 1
				:: sus[c] > 0 && tokc[sus[c]-1] != c -> DO(sus[c] = 0)
				:: else
				fi;
#ifdef LIMIT
				key_room();
#endif
#if NJ > 1
				take(c, n, sl, NJ, first);
				take(c, n, sl, NJ, (1-first));
				take(c, n, sl, 0, first);
				take(c, n, sl, 0, (1-first));
#ifdef LIMIT
				if :: wake & 1 -> key_next(0) :: else fi;
				if :: wake & 2 -> key_next(1) :: else fi;
				wake = 0;
#endif
#else
				take(c, n, sl, NJ, 0);
				take(c, n, sl, 0, 0);
#endif
#ifdef MUT_CLAIMMEM
				cl_got[c] = gotm;
#endif
				if
				:: taken > 0 -> remember_claim(c, n, A_J)
				:: else -> remember_claim(c, n, A_E)
				fi
			fi
		fi
	fi
}

#ifdef MUT_CLAIMMEM
byte cl_got[NI+1];
#endif

#ifdef MUT_DIRECT
/* What a BLMOVE put into the own list is claimed from there. */
inline adopt(c, n, j) {
	if
	:: P(c,j) > 0 && ex[j] && st[j] == PEND && tokc[j] == 0 && taken < S ->
		stamp(c, n, j); gotm = gotm | (1<<j); taken++
	:: else
	fi
}
#endif

/* script: list_settle.lua, list_sender.lua, list_bury.lua
 * One outcome: ID j, token (c, tn), grant g, outcome o. Leaves ans. */
inline settle(c, n, j, tn, g, o) {
	ans = 0;
	if
#ifdef MUT_RECLEASE
	:: !rec[c] && n == 0
#else
	:: !rec[c] -> ans = A_UNKNOWN
#endif
	:: rec[c] && n < se_n[c] -> ans = A_OLD
#ifndef MUT_NOANSWER
	:: rec[c] && n == se_n[c] -> ans = se_code[c]
#endif
	:: else ->
		if
		:: !ex[j] -> ans = A_GONE; lrem(c, j)
		/* what a script that stopped half-way has recorded as completed is completed by this one */
		:: ex[j] && o == O_DONE && st[j] == COMPL && byc[j] == c && byn[j] == tn ->
			ans = A_OK;
			finish(j, COMPL, c, tn);
			lrem(c, j)
		/* likewise what a script, or a sweep, has recorded as cancelled */
		:: ex[j] && WAITS(o) && st[j] == CANC && byc[j] == c && byn[j] == tn ->
			ans = A_CANC;
			finish(j, CANC, c, tn);
			lrem(c, j)
		:: ex[j] && (tokc[j] != c || tokn[j] != tn) && !((o == O_DONE && st[j] == COMPL || WAITS(o) && st[j] == CANC) && byc[j] == c && byn[j] == tn) ->
			ans = A_STALE;
#ifdef MUT_STALELREM
			lrem(c, j)
#endif
		:: else ->
			/* no completion by a stale token */
			assert(g == gcur[j]);
			ans = A_OK;
			if
#ifndef MUT_SETTLED
			:: WAITS(o) && mark[j] -> ans = A_CANC; finish(j, CANC, tokc[j], tokn[j])
#endif
			:: o == O_DONE -> finish(j, COMPL, tokc[j], tokn[j])
			:: o == O_RETRY && att[j]+1 >= MAXATT ->
				ans = A_DEAD;
				DO(dead[j] = 1);
				DO(failed[j]++; att[j]++; st[j] = DEAD; UNTOKEN(j); gcur[j] = 0)
			:: o == O_RETRY && att[j]+1 < MAXATT ->
				DO(LATER(j));
				DO(failed[j]++; att[j]++; st[j] = SCHED; UNTOKEN(j); gcur[j] = 0)
			:: o == O_SNOOZE ->
				DO(LATER(j));
				DO(st[j] = SCHED; UNTOKEN(j); gcur[j] = 0)
			:: o == O_DEAD ->
				DO(dead[j] = 1);
				DO(st[j] = DEAD; UNTOKEN(j); gcur[j] = 0);
				DO(mark[j] = 0)
			:: o == O_RELEASE ->
				DO(pend(j)++);
				DO(st[j] = PEND; UNTOKEN(j); gcur[j] = 0)
			fi;
			key_ended(j);
			lrem(c, j)
		fi;
		if :: sus[c] == j+1 && ans != A_STALE -> DO(sus[c] = 0) :: else fi;
		/* Stopped in the middle: asked again it answers GONE or STALE, as if it had not been. */
		if :: n == sn[c] && (tru[c] == 0 || halted) -> tru[c] = (halted -> ANY : ans) :: else fi;
		DO(se_n[c] = n; se_code[c] = ans)
	fi
}

/* script: list_open.lua */
inline open(p) {
	nid++;
	score[nid] = LIVE; rec[nid] = 1;
	own[nid] = p
}

/* script: list_renew.lua
 * script: list_stall.lua: a lease that goes on for a little longer; a sweep that fences nobody is no step */
inline renew(c) {
	if
	:: score[c] == ABSENT || score[c] == FENCED -> ans = A_FENCED
	:: else -> score[c] = LIVE; ans = A_OK
	fi
}

/* script: list_sweep.lua (charged) */
inline decide_charge(c) {
	if
	:: !rec[c] -> ch = 255
	:: rec[c] && leaving[c] -> ch = 254
	:: rec[c] && !leaving[c] && charge[c] != 0 -> ch = charge[c]
	:: else ->
		ch = 255;
#ifndef MUT_CHARGEALL
		if
		:: sus[c] > 0 && tokc[sus[c]-1] == c -> ch = sus[c]
		:: else
		fi;
#endif
		DO(charge[c] = ch)
	fi
}

/* The truth about suspects, at the moment an identity is fenced. */
inline note_suspect(c) {
	for (x : 0 .. NJ-1) {
		if :: ex[x] && tokc[x] == c && cra[x] > 0 -> hadsus[c] = x+1 :: else fi
	}
}

/* script: list_sweep.lua: one consumer, one entry; first is the entry if there are two */
inline sweep(c) {
	if
	:: score[c] == EXPIRED || score[c] == FENCED ->
		if :: score[c] == EXPIRED -> note_suspect(c); score[c] = FENCED :: else fi;
		decide_charge(c);
#if NJ > 1
		y = (P(c,first) > 0 -> first : 1-first);
#else
		y = 0;
#endif
		if
		:: P(c,y) > 0 -> give_back(c, y, (ch == 255 || ch == y+1))
		:: else
		fi;
#ifdef MUT_UNREG
		DO(score[c] = ABSENT)
#else
		if :: LLEN(c) == 0 -> DO(score[c] = ABSENT) :: else fi
#endif
	:: else
	fi
}

/* script: list_sweep.lua (search for unregistered lists) */
inline register(c) { score[c] = LIVE; charge[c] = 0 }

/* script: list_leave.lua: one entry at a time; ans is A_E at the end */
inline leave(c) {
	if
	:: score[c] == ABSENT -> ans = A_E
	:: else ->
		if :: rec[c] -> leaving[c] = 1 :: else fi;
		score[c] = FENCED;
#if NJ > 1
		y = (P(c,first) > 0 -> first : 1-first);
#else
		y = 0;
#endif
		if
		:: P(c,y) > 0 -> give_back(c, y, 0)
		:: else
		fi;
		if
		:: LLEN(c) == 0 -> DO(score[c] = ABSENT); ans = A_E
		:: else -> ans = A_M
		fi
	fi
}

/* script: list_cancel.lua
 * One job: ID j, the life lf of it. A claimed one is asked to end; one that waits has ended. Entries of lists are not searched. */
inline cancel(j, lf) {
	if
#ifdef MUT_LIFE
	:: !ex[j] || KEPT(j) || st[j] == DEAD -> ans = A_GONE
#else
	:: !ex[j] || life[j] != lf || KEPT(j) || st[j] == DEAD -> ans = A_GONE
#endif
	:: else ->
		assert(lf == life[j]); /* never another one */
		if
#ifndef MUT_CANCELNOW
		:: st[j] == PROC && tokc[j] != 0 -> ans = A_RUN; DO(mark[j] = 1; gcanc[j] = 1)
#endif
		:: else ->
			ans = A_OK;
			finish(j, CANC, 0, 0);
			DO(sched[j] = 0; due[j] = 0)
		fi
	fi
}

/* What must hold after every step: each job is where its status says, and, unless somebody
 * pushed more or a script stopped half-way, nowhere else. */
#ifdef STOPS
#define never_waits(j) skip
#else
#define never_waits(j) assert(!mark[j])
#endif
inline in_place(j) {
	if
	:: ex[j] ->
		if
		:: st[j] == PEND ->
			y = pend(j)+arr(j);
#ifdef MUT_DIRECT
			for (x : 1 .. NI) { y = y + (score[x] != ABSENT && P(x,j) > 0) }
#endif
			assert(y >= 1 && gcur[j] == 0);
			never_waits(j)
		:: st[j] == PROC ->
			y = 0;
			for (x : 1 .. NI) { y = y + (P(x,j) > 0 && (tokc[j] == 0 || tokc[j] == x)) }
			assert(y > 0);
			assert(tokc[j] == 0 || score[tokc[j]] != ABSENT || unregistered)
		:: st[j] == SCHED -> assert(sched[j] && gcur[j] == 0); never_waits(j)
		:: st[j] == DEAD -> assert(dead[j] && gcur[j] == 0)
		:: KEPT(j) -> assert(compl[j] && gcur[j] == 0)
		fi;
#ifdef EXACT
		y = pend(j)+arr(j)+sched[j]+dead[j];
		for (x : 1 .. NI) { y = y + P(x,j) }
		assert(y == 1);
#endif
		assert(att[j] <= failed[j])
	:: else ->
#ifdef EXACT
		y = pend(j)+arr(j)+sched[j]+dead[j];
		for (x : 1 .. NI) { y = y + P(x,j) }
		assert(y == 0)
#endif
		skip
	fi
}

inline check() {
	in_place(0);
#if NJ > 1
	in_place(1);
	assert(!(ex[0] && ex[1] && tokc[0] != 0 && tokc[0] == tokc[1] && cra[0] > 0 && cra[1] > 0));
#endif
#ifdef UNIQUE
	/* one job at a time has the key, and none that is gone */
	assert(!(KEEPS(0) && KEEPS(1)));
#ifdef EXACT
	assert(kh == 0 || ex[kh-1]);
#endif
#endif
	x = 0; y = 0; ch = 0; first = 0; mysus = 0; room = 0; w = 0; cut = 0; halted = 0
}
